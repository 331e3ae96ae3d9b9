package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ptrs "k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/test/sim/api"
	"attune.io/attune/usage"
)

const (
	// raisedWithin is how long a raise that is due may take to be carried out, judgedEach how often that is judged.
	raisedWithin = 2 * time.Minute
	judgedEach   = 10 * time.Second
	// A raise is due with so many samples of so long, or if a container is throttled in more of its periods.
	dueSamples   = 10
	dueWindow    = 10 * time.Minute
	dueStep      = 30 * time.Second
	dueThrottled = 0.25
)

// dueRaises judges one workload of a fixed world exactly, by what the usage source tells: a raise that is due is carried out
// within two minutes, and goes to the target. It waits for other resizes of the workload, and for the end of a backoff.
type dueRaises struct {
	deaf
	w   *world
	rec types.NamespacedName
	// since when raises are due that are not carried out.
	since map[string]time.Time
	// pending is since when pods have a raise that is due, also while other pods are resized or observed.
	pending map[string]time.Time
	// lowered is when a memory request was lowered last.
	lowered time.Time
	// raises are those of CPU and memory requests, in the order in which they were written.
	raises []requestRaise
	// slowest is the longest that a raise took that was due.
	slowest time.Duration
}

// requestRaise of a container, in millicores or bytes.
type requestRaise struct {
	at             time.Time
	pod, container string
	resource       recommender.Resource
	from, to       recommender.Amount
	// due: it was. cooling: a cooldown had not ended, which a backoff doubles.
	due, cooling, backedOff bool
}

// judgeRaises of a recommendation from now on.
func (w *world) judgeRaises(rec types.NamespacedName) *dueRaises {
	j := &dueRaises{w: w, rec: rec, since: map[string]time.Time{}, pending: map[string]time.Time{}}
	w.watching.invariants = append(w.watching.invariants, j)
	w.time.every(judgedEach, func() bool { j.look(); return true })
	return j
}

func (j *dueRaises) stored() *v1alpha1.AttuneRecommendation {
	rec, _ := j.w.server.Peek(&v1alpha1.AttuneRecommendation{}, j.rec).(*v1alpha1.AttuneRecommendation)
	return rec
}

// changed notes the raises, and sees resizes that begin before one that is due.
func (j *dueRaises) changed(e api.Event) {
	if rec, is := e.Object.(*v1alpha1.AttuneRecommendation); is && len(rec.Status.Records) > 0 {
		for _, r := range rec.Status.Records {
			for pod, since := range j.pending {
				if begun := ptrs.Deref(r.Begun, r.WrittenAt); r.PodName != pod && j.pending[r.PodName].IsZero() && begun.Sub(since) > time.Minute {
					j.violate("pod %s has a raise that is due since %s, and pod %s is resized first", pod, since.Format(time.TimeOnly), r.PodName)
				}
			}
		}
	}
	pod, is := e.Object.(*corev1.Pod)
	old, was := e.Old.(*corev1.Pod)
	rec := j.stored()
	if !is || !was || rec == nil || j.w.watching.owners[key2(pod.Namespace, pod.Name)] != j.rec {
		return
	}
	before := podview.ByName(podview.Read(old))
	cooling := resize.CooldownLeft(rec.Status.CooldownFrom, rec.Status.Backoff, resize.Rules{Cooldown: time.Hour}, j.w.time.now) > 0
	for _, c := range podview.Read(pod) {
		for _, r := range recommender.Resources {
			from, to := before[c.Name].Size[r].Request, c.Size[r].Request
			if r == recommender.Memory && to < from {
				j.lowered = j.w.time.now
			}
			if to > from {
				j.raises = append(j.raises, requestRaise{j.w.time.now, pod.Name, c.Name, r, from, to, j.isDue(old, c.Name, r, from), cooling, rec.Status.Backoff != nil})
			}
		}
	}
}

func (r requestRaise) String() string {
	return fmt.Sprintf("%s %s of %s/%s %d -> %d (due %t, in a cooldown %t, in a backoff %t)", r.at.Format(time.TimeOnly), r.resource, r.pod, r.container, r.from, r.to, r.due, r.cooling, r.backedOff)
}

// of a container's resource, the raises.
func (j *dueRaises) of(container string, r recommender.Resource) (all []requestRaise) {
	for _, of := range j.raises {
		if of.container == container && of.resource == r {
			all = append(all, of)
		}
	}
	return all
}

func (j *dueRaises) look() {
	rec := j.stored()
	if rec == nil {
		return
	}
	there := map[string]bool{}
	was := j.pending
	j.pending = map[string]time.Time{}
	for _, pod := range j.w.podsOf(j.rec) {
		if !isReady(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		for _, target := range rec.Spec.Containers {
			for _, r := range recommender.Resources {
				key := fmt.Sprintf("%s of container %s of pod %s", r, target.Name, pod.Name)
				there[key] = true
				if j.judge(key, rec, pod, target, r) {
					j.pending[pod.Name] = cmp.Or(was[pod.Name], j.w.time.now)
				}
			}
		}
	}
	for key := range j.since {
		if !there[key] {
			delete(j.since, key)
		}
	}
}

// judge one resource of a container, and return whether its raise is due and may be carried out.
func (j *dueRaises) judge(key string, rec *v1alpha1.AttuneRecommendation, pod *corev1.Pod, of v1alpha1.ContainerTarget, r recommender.Resource) bool {
	now, to := j.w.time.now, resize.Unheld(of)[r].Request
	asked, runs := podview.ByName(podview.Read(pod))[of.Name].Size[r].Request, running(pod, of.Name, r)
	since, waits := j.since[key]
	switch {
	case runs == 0 || to <= runs || recommender.WithinDeadBand(runs, to):
		if waits {
			j.slowest = max(j.slowest, now.Sub(since))
		}
		delete(j.since, key)
		return false
	case !j.isDue(pod, of.Name, r, runs), j.w.watching.excused(), rec.Status.Backoff != nil:
		delete(j.since, key)
		return false
	case asked == runs && len(rec.Status.Records) > 0: // a pod is resized or observed
		delete(j.since, key)
	case !waits:
		j.since[key] = now
	case asked != runs && !recommender.WithinDeadBand(asked, to):
		delete(j.since, key)
		j.violate("%s is due to be raised to %d and is raised to %d", key, to, asked)
	case now.Sub(since) > raisedWithin:
		delete(j.since, key)
		j.violate("%s is due to be raised from %d to %d since %s", key, runs, to, since.Format(time.TimeOnly))
	}
	return asked == runs
}

func (j *dueRaises) violate(format string, args ...any) {
	j.w.violate("raises that are due", "%s\n%s", fmt.Sprintf(format, args...), j.w.describe(j.rec.String()))
}

// running is the request that a container runs with.
func running(pod *corev1.Pod, container string, r recommender.Resource) recommender.Amount {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == container && s.Resources != nil {
			return podview.ReadSpec(*s.Resources)[r].Request
		}
	}
	return 0
}

// isDue: of the samples that the source tells of the last minutes the 95th percentile is above the request, or a container is
// throttled too often.
func (j *dueRaises) isDue(pod *corev1.Pod, container string, r recommender.Resource, request recommender.Amount) bool {
	last := j.w.time.now.Truncate(dueStep)
	var values []float64
	for _, l := range j.w.lives.all[string(pod.UID)] {
		if l.container != container {
			continue
		}
		series := l.series(usage.Query{Start: last.Add(-dueWindow), End: last, Step: dueStep}, j.w.time.now)
		if j.w.plan.Recent != nil {
			series = j.w.plan.Recent(series)
		}
		samples, factor := series.CPU, 1000.0
		if r == recommender.Memory {
			samples, factor = series.Memory, 1
		}
		for _, s := range samples {
			if !s.Time().Before(last.Add(-dueWindow)) {
				values = append(values, s.Value*factor)
			}
		}
	}
	if len(values) < dueSamples {
		return false
	}
	slices.Sort(values)
	p95 := values[len(values)*95/100]
	return p95 > float64(request) || r == recommender.CPU && j.throttled(pod, container) > dueThrottled
}

// throttled is how much of its need a container does not get for the limit that a pod has.
func (j *dueRaises) throttled(pod *corev1.Pod, container string) float64 {
	of, _ := j.w.demandOf(pod)
	need, _ := of.at(j.w.time.now, pod.CreationTimestamp.Time, pod.Name)
	limit := podview.ByName(podview.Read(pod))[container].Size[recommender.CPU].Limit
	if limit == 0 || need == 0 {
		return 0
	}
	return 1 - float64(limit)/1000/need
}
