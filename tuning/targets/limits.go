package targets

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// LimitInForce is the highest memory limit of a container's running pods, in bytes, and since when one of them has it.
type LimitInForce struct {
	Limit recommender.Amount
	Since time.Time
}

// LimitsInForce returns the memory limits of running pods by container name. Pods with a resize under way do not count.
func LimitsInForce(pods []*corev1.Pod) map[string]LimitInForce {
	out := map[string]LimitInForce{}
	for _, pod := range pods {
		since := podview.SizedSince(pod)
		if since.IsZero() || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		for _, c := range podview.Resizable(pod) {
			limit, has := podview.ReadSpec(c.Resources)[recommender.Memory].Limit, out[c.Name]
			if limit > has.Limit || limit == has.Limit && since.Before(has.Since) {
				out[c.Name] = LimitInForce{limit, since}
			}
		}
	}
	return out
}

// LimitsDigest returns a digest of the limits, without their times: a new time alone changes no decision. 0: no limits.
func LimitsDigest(limits map[string]LimitInForce) (sum uint64) {
	for name, l := range limits {
		sum += podview.Hash(name + "=" + strconv.FormatInt(int64(l.Limit), 10))
	}
	return sum
}

// RaisesLimits reports whether a stored target raises a memory limit, or limits are stored: only then they matter.
func RaisesLimits(stored *v1alpha1.AttuneRecommendationSpec, template *corev1.PodTemplateSpec) bool {
	for i := range stored.Containers {
		t := &stored.Containers[i]
		if len(t.MemoryLimits) > 0 {
			return true
		}
		if t.Target.MemoryLimit == nil || template == nil {
			continue
		}
		for j := range template.Spec.Containers {
			c := &template.Spec.Containers[j]
			limit := c.Resources.Limits[corev1.ResourceMemory]
			if c.Name == t.Name && t.Target.MemoryLimit.Cmp(limit) > 0 {
				return true
			}
		}
	}
	return false
}

// memoryLimits returns the last memory limits of a container's running pods, oldest first. It forgets them where they
// show nothing: a limit below the template's is no raise, usage that was not constant under a limit may have grown, and a
// limit that is left alone does not follow the request.
func (v View) memoryLimits(c *corev1.Container) []v1alpha1.MemoryLimit {
	limits := podview.First(v.Stored.Containers, func(t v1alpha1.ContainerTarget) bool { return t.Name == c.Name }).MemoryLimits
	now, known := v.Limits[c.Name]
	template, last := v.original(c)[recommender.Memory].Limit, len(limits)-1
	switch {
	case template == 0, known && now.Limit < template, !v.Settings.For(c.Name).Of[recommender.Memory].LimitsFollow:
		return nil
	case !known, last >= 0 && podview.AmountOf(recommender.Memory, limits[last].Limit) == now.Limit:
		return limits
	}
	if limits = slices.Clone(limits); last >= 0 {
		if limits[last].Usage = podview.ToPointer(recommender.Memory, v.plateau(c.Name, limits[last].Since.Time, now.Since)); limits[last].Usage == nil {
			limits = nil
		}
	}
	since := metav1.Time{Time: now.Since.UTC().Truncate(time.Second)}
	limits = append(limits, v1alpha1.MemoryLimit{Limit: podview.Quantity(recommender.Memory, now.Limit), Since: since})
	return limits[max(0, len(limits)-v1alpha1.MaxLimits):]
}

// limitUsage returns the limits with the usage under each.
func (v View) limitUsage(container string, limits []v1alpha1.MemoryLimit) (out []recommender.LimitUsage) {
	for _, l := range limits {
		used := podview.FromPointer(recommender.Memory, l.Usage)
		if l.Usage == nil {
			used = v.plateau(container, l.Since.Time, v.Now)
		}
		out = append(out, recommender.LimitUsage{Limit: podview.AmountOf(recommender.Memory, l.Limit), Usage: used})
	}
	return out
}

// plateauSteps is the number of steps for which usage must be constant under a limit: less than a cooldown, so that the
// third limit is known before it is raised. Usage is constant if the highest of its first and of its last quarter are
// above this part of the highest of all. Usage that grows enough to look like the same share of two limits is not.
const (
	plateauSteps = 8
	constant     = 0.97
)

// plateau returns the highest memory usage between two times, in whole steps, in bytes. 0: it was not measured for long
// enough, or was not constant: the highest of the first or of the last quarter is less by 3 % or more.
func (v View) plateau(container string, from, to time.Time) recommender.Amount {
	step := v.Settings.Recommender.QueryStep
	to = to.Add(-step)
	length := min(to.Sub(from)-step, v.Settings.Recommender.HistoryWindow)
	if length < plateauSteps*step {
		return 0
	}
	of := v.History.Highest(container, recommender.Memory)
	highest, _ := of(to.Add(-length), to)
	first, _ := of(to.Add(-length), to.Add(-length*3/4))
	last, _ := of(to.Add(-length/4), to)
	if min(first, last) <= highest*constant {
		return 0
	}
	return recommender.Memory.Whole(highest.RoundUp())
}

// followedLimit returns the memory limit of new pods if usage follows it, so that the ratio to the request does not raise
// it; nil: the ratio applies, or limits are left alone.
func (v View) followedLimit(t v1alpha1.ContainerTarget) *resource.Quantity {
	was, taught := v.OriginalOf(t.Name)[recommender.Memory], resize.LimitFloorOf(v.Status.Floors, t.Name, v.Now).Taught
	if !v.Settings.For(t.Name).Of[recommender.Memory].LimitsFollow || was.Request == 0 || was.Request == was.Limit ||
		recommender.FollowedLimit(v.limitUsage(t.Name, t.MemoryLimits), taught) == 0 {
		return nil
	}
	return t.Target.MemoryLimit
}
