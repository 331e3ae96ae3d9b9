// Package withdraw decides when admission stops setting resources on a workload's new pods, because the API server
// rejects them or they do not start, and when it resumes. It is pure: Judge advances status.admissionWithdrawn, and
// Stands answers for the webhook and the policy loop.
package withdraw

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Lasts is how long admission sets no resources for a workload after its pods were rejected or did not start.
const Lasts = 24 * time.Hour

// Stands reports whether admission sets no resources on new pods at a time; false for nil. After Until it sets them on
// one pod, and withholds them again as soon as that pod is known, until the pod has started.
func Stands(w *v1alpha1.AdmissionWithdrawn, now time.Time) bool {
	return w != nil && (now.Before(w.Until.Time) || w.TrialPod != "" || w.RejectedWithout)
}

// SeedEffect is how a seed changes the pods of a template.
type SeedEffect struct {
	// Raises and Lowers report that a request or limit becomes greater or less than the template's.
	Raises, Lowers bool
	// Removes reports that the CPU limit of a container is removed.
	Removes bool
}

// EffectOf compares a seed with a template (nil: not known), container by container. A container that the template does
// not have counts as one without resources. Limits count with their requests, as they may follow them. A nil seed has
// no effect.
func EffectOf(seed *v1alpha1.Seed, template *corev1.PodTemplateSpec) (e SeedEffect) {
	if seed == nil {
		return e
	}
	for _, c := range seed.Containers {
		has, _ := podview.TemplateSize(template, c.Name)
		mayLower := !seed.RaiseOnly && !c.RaiseOnly
		for _, of := range []struct {
			given, has recommender.Amount
			lowers     bool
		}{
			{podview.FromPointer(recommender.CPU, c.CPURequest), requested(has[recommender.CPU]), mayLower},
			{podview.FromPointer(recommender.Memory, c.MemoryRequest), requested(has[recommender.Memory]), mayLower && c.AllowMemoryDecrease},
			{podview.FromPointer(recommender.Memory, c.MemoryLimitFloor), has[recommender.Memory].Limit, false},
			{podview.FromPointer(recommender.Memory, c.MemoryLimit), has[recommender.Memory].Limit, mayLower},
		} {
			e.Raises = e.Raises || of.given > of.has
			e.Lowers = e.Lowers || of.given > 0 && of.given < of.has && of.lowers
		}
		e.Raises = e.Raises || c.CPUBoost != nil && c.CPURequest != nil
		e.addRule(c.CPULimitRule, has[recommender.CPU].Limit)
	}
	return e
}

// addRule adds the effect of a rule for a CPU limit: an admission policy may require limits, or bound them.
func (e *SeedEffect) addRule(rule *v1alpha1.CPULimitRule, limit recommender.Amount) {
	if rule != nil && limit > 0 {
		e.Raises, e.Lowers, e.Removes = e.Raises || !rule.Remove, true, e.Removes || rule.Remove
	}
}

// requested returns a template's request, or the limit if only that is set: the API server defaults it so.
func requested(a recommender.Allocation) recommender.Amount { return cmp.Or(a.Request, a.Limit) }

// otherCauses are parts of API server answers that no pod resources explain: the template alone would cause them as
// well, or the next attempt passes. Phrases that an admission policy could use about sizes are not in the list.
var otherCauses = []string{
	"being terminated", "violates podsecurity", "error looking up service account", "failed calling webhook",
	"already exists", "unable to validate against any security context constraint",
	"timed out", "deadline exceeded", "connection refused", "too many requests", "cannot create resource",
	// The API server is busy, restarts, or lost a race (409, 5xx).
	"operation cannot be fulfilled on", "could not be completed at this time", "internal error occurred", "status unknown for quota",
	"unable to handle the request", "unable to return a response", "etcdserver:", "leader changed",
	// The network between a controller and the API server.
	"dial tcp", "connection reset", "connection lost", "unexpected eof", "i/o timeout", "tls handshake",
	// A StatefulSet cannot create a volume claim.
	"create claim ", "failed to create pvc",
	// Volcano creates no pods while their PodGroup waits.
	"podgroup",
}

// quotas are the names under which ResourceQuotas count the resources that attune sizes.
var quotas = []string{"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}

// MayReject reports whether the admission resources can explain why the API server rejected a pod. It needs the whole
// answer: controllers name the pod several times before the reason. An unrecognized answer counts, as other admission
// policies may use any text. A quota counts only for raised resources, and for removed CPU limits.
func MayReject(message string, e SeedEffect) bool {
	text := strings.ToLower(message)
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case !e.Raises && !e.Lowers, slices.ContainsFunc(otherCauses, has):
		return false
	case has("failed quota:"): // the pod lacks an amount that a quota counts: attune removes no other
		return e.Removes && has("limits.cpu")
	case has("exceeded quota"):
		return e.Raises && exceedsSized(text)
	}
	return true
}

// exceedsSized reports whether a quota's answer, in lower case, lists an exceeded resource that attune sizes: between
// "requested:" and "used:". The rest also lists resources that are not exceeded.
func exceedsSized(text string) bool {
	_, requested, _ := strings.Cut(text, "requested:")
	requested, _, _ = strings.Cut(requested, "used:")
	for entry := range strings.SplitSeq(requested, ",") {
		if name, _, _ := strings.Cut(strings.TrimSpace(entry), "="); slices.Contains(quotas, name) {
			return true
		}
	}
	return false
}

// missing are parts of the kubelet's messages about missing volumes, Secrets, ConfigMaps and images.
var missing = []string{"not found", "couldn't find", "could not find", "non-existent", "not exist", "no such", "forbidden", "not registered", "image", "runasnonroot", "timed out waiting"}

// MayStall reports whether the kubelet's message can mean that a memory limit is too low to start a container or mount
// a volume. Volumes in memory, such as those for tokens and Secrets, are as large as the pod's memory limit.
func MayStall(message string) bool {
	text := strings.ToLower(message)
	return text != "" && !slices.ContainsFunc(missing, func(part string) bool { return strings.Contains(text, part) })
}

// mostWords is the maximum length of a stored answer, in bytes (status.admissionWithdrawn.message).
const mostWords = 256

// Words cleans a text that another program wrote, and cuts it to 256 bytes: it replaces control characters and line
// ends with spaces, and drops invalid UTF-8.
func Words(text string) string {
	if len(text) > 4*mostWords {
		text = text[:4*mostWords]
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	text = strings.TrimSpace(text)
	// The names before the answer itself, up to three times that of the pod, must not push out the reason.
	if at := strings.LastIndex(text, `pods "`); at > 0 && len(text) > mostWords {
		text = text[at:]
	}
	if len(text) > mostWords {
		text = clip.Text(text, mostWords-3) + "..."
	}
	return strings.Clone(text)
}

// Started reports whether a container of the pod runs or has run.
func Started(pod *corev1.Pod) bool {
	some := func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || podview.Ran(s.State.Terminated) || podview.Ran(s.LastTerminationState.Terminated)
	}
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, some) || slices.ContainsFunc(pod.Status.ContainerStatuses, some) ||
		pod.Status.Phase != corev1.PodPending && pod.Status.Phase != ""
}

// LowersMemoryLimit returns the first container whose memory limit is below its original; false: there is no such
// container.
func LowersMemoryLimit(pod *corev1.Pod, originals map[string]recommender.Size) (container string, lower bool) {
	for _, c := range podview.Read(pod) {
		had, known := originals[c.Name]
		if limit := c.Size[recommender.Memory].Limit; known && limit > 0 && (had[recommender.Memory].Limit == 0 || limit < had[recommender.Memory].Limit) {
			return c.Name, true
		}
	}
	return "", false
}
