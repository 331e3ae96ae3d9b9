package lifecycle

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// ResultUndone is the result of a record that restored a pod's original resources because a user requested it.
const ResultUndone = "Undone"

// ReasonUndo is the reason of plans and records that restore a pod's original resources because a user requested it.
const ReasonUndo = "Undo"

// nextUndoing returns the action for an open record while its workload is undone: resizes that are not being restored
// yet are withdrawn first. A resize that may still be on its way to the API server is waited for. Otherwise the undo
// would be applied first, and the late resize would then set the new size again.
func nextUndoing(state State, record v1alpha1.ResizeRecord, next Action) Action {
	waited := []StateKind{Replaced, Terminal, Superseded, Harmed, Unsent, Landed}
	if resize.Restores(record.Wave) || resize.PuttingBack(record) || next.Kind == Forget || slices.Contains(waited, state.Kind) {
		return next
	}
	return withdraw(ReasonUndo, state)
}

// nextResumed returns the action for an open record without an undo request: an undo that the kubelet has not carried
// out yet is withdrawn.
func nextResumed(state State, record v1alpha1.ResizeRecord, next Action) Action {
	if record.Wave == resize.WaveUndo && next.Kind == Wait && waitsForKubelet(state) {
		return withdraw(ReasonUndo, state)
	}
	return next
}

// waitsForKubelet reports whether the API server has the resize and the kubelet has not carried it out.
func waitsForKubelet(state State) bool {
	return state.Kind == Unobserved || state.Kind == Deferred || state.Kind == Actuating
}

// boostWatch is the maximum observation period after the end of a boost. The remaining size was verified before, and
// throttling shows within one rate window; with the full observation period a rollout of thousands of pods would take
// many hours.
const boostWatch = time.Minute

// Boosted returns the containers that still have their startup boost, each with its CPU after the boost. A pod's
// annotation lists them. Every user who can write pods in the namespace can edit it, so it is only a hint. It counts if
// the container has exactly the annotated request, and only to lower the CPU, to no less than a boost can have started
// from (plausible). least returns the lowest request that the policy allows a container, in millicores; 0: no bound.
func Boosted(pod *corev1.Pod, seeded v1alpha1.Seeded, least func(container string) recommender.Amount) []podview.Container {
	var boosted []podview.Container
	for _, c := range podview.Resizable(pod) {
		i := slices.IndexFunc(seeded.Boosted, func(b v1alpha1.BoostedContainer) bool { return b.Name == c.Name })
		if i < 0 {
			continue
		}
		has, base := podview.ReadSpec(c.Resources)[recommender.CPU], baseOf(seeded.Boosted[i])
		if has.Request == podview.AmountOf(recommender.CPU, seeded.Boosted[i].CPURequest) && plausible(has, base, least(c.Name)) {
			boosted = append(boosted, podview.Container{Name: c.Name, Sidecar: podview.IsSidecar(pod, c), Size: recommender.Size{recommender.CPU: base}})
		}
	}
	return boosted
}

// baseOf returns the annotation's CPU without the boost.
func baseOf(b v1alpha1.BoostedContainer) recommender.Allocation {
	return recommender.Allocation{
		Request: podview.AmountOf(recommender.CPU, b.BaseCPURequest), Limit: podview.FromPointer(recommender.CPU, b.BaseCPULimit),
	}
}

// plausible reports whether a boost can have led from base to has. It refuses a base that would raise an amount, is
// below the policy's minimum, is less than 1/MaxBoost of the request, or adds or removes a limit.
func plausible(has, base recommender.Allocation, least recommender.Amount) bool {
	switch {
	case base.Request == 0 || base.Request >= has.Request || base.Request < least || base.Request*v1alpha1.MaxBoost < has.Request:
		return false
	case has.Limit == 0 || base.Limit == 0:
		return has.Limit == base.Limit
	}
	return base.Request <= base.Limit && base.Limit <= has.Limit
}

// BoostLeft returns how long the boost of a pod's containers still lasts: until each of them has run for the duration
// and the pod is ready, whichever is later. It returns false if that is not known yet: the pod is not ready, or one of
// the containers does not run. A time of 0 or less with true means that the boost is over.
func BoostLeft(pod *corev1.Pod, boosted []podview.Container, duration time.Duration, now time.Time) (time.Duration, bool) {
	statuses := podview.Statuses(pod)
	left := time.Duration(0)
	for _, c := range boosted {
		status := statuses[c.Name]
		if status == nil || status.State.Running == nil {
			return 0, false
		}
		left = max(left, status.State.Running.StartedAt.Add(duration).Sub(now))
	}
	return left, podview.IsReady(pod)
}

// quickRestarts is how many restarts of a container get the startup boost again, however soon they follow each other.
// Later ones get it only after a run of longRun. Together that is at most three boosts an hour.
const quickRestarts, longRun = 2, 30 * time.Minute

// Reboost is the startup boost of a container that restarts.
type Reboost struct {
	// Multiplier of the CPU request, greater than 1, and for how long it applies.
	Multiplier float64
	Duration   time.Duration
	// Most is the highest CPU request that the policy allows, in millicores; 0: no bound.
	Most recommender.Amount
	// Target is the container's recommended CPU request, in millicores; 0: not known. A boost is not more than the
	// multiple of it: if the record of a boost is lost, the next one must not multiply the boosted CPU.
	Target recommender.Amount
	// LimitsFollow: the CPU limit keeps its ratio to the request. Otherwise it stays, and bounds the request.
	LimitsFollow bool
	// Limits replaces the ratio.
	Limits recommender.LimitRule
}

// Restarted returns the containers that had a startup boost when the pod was created and restarted within the boost's
// duration, each with its boosted CPU. The amounts come from the container's present size and the policy: the pod's
// annotation, which users can edit, only names the containers. A container whose resizePolicy restarts it for a change of
// CPU gets none, nor one in a crash loop (quickRestarts, longRun). of returns the boost of a container; nil: it has none.
func Restarted(pod *corev1.Pod, seeded v1alpha1.Seeded, now time.Time, of func(container string) *Reboost) (boosted []podview.Container) {
	statuses := podview.Statuses(pod)
	for _, c := range podview.Resizable(pod) {
		status := statuses[c.Name]
		named := slices.ContainsFunc(seeded.Boosted, func(b v1alpha1.BoostedContainer) bool { return b.Name == c.Name })
		if !named || status == nil || status.State.Running == nil || !mayBoostAgain(status) {
			continue
		}
		b := of(c.Name)
		if b == nil ||
			now.Sub(status.State.Running.StartedAt.Time) >= b.Duration || podview.RestartPolicyFor(c, corev1.ResourceCPU) == corev1.RestartContainer {
			continue
		}
		if KilledAfterStart(pod, status.State.Running.StartedAt.Time) != nil {
			continue
		}
		has := podview.ReadSpec(c.Resources)[recommender.CPU]
		if pod.Status.QOSClass != corev1.PodQOSGuaranteed && b.LimitsFollow {
			bound := b.Limits.MostRequest(has)
			b.Most = recommender.Brake(cmp.Or(b.Most, bound), bound)
		}
		if to := b.of(has); to.Request > has.Request {
			boosted = append(boosted, podview.Container{Name: c.Name, Sidecar: podview.IsSidecar(pod, c), Size: recommender.Size{recommender.CPU: to}})
		}
	}
	return boosted
}

// mayBoostAgain reports whether a container restarted, and not as often as in a crash loop.
func mayBoostAgain(status *corev1.ContainerStatus) bool {
	last := status.LastTerminationState.Terminated
	return status.RestartCount > 0 && (status.RestartCount <= quickRestarts || last != nil && last.FinishedAt.Sub(last.StartedAt.Time) >= longRun)
}

// KilledAfterStart returns an OOM kill in a pod after one of its containers started, by the clock of its node; nil: there
// is none. Its answer takes precedence over the boost of that container.
func KilledAfterStart(pod *corev1.Pod, started time.Time) *podview.OOM {
	for _, kill := range podview.OOMKills(pod) {
		if kill.At.After(started) {
			return &kill
		}
	}
	return nil
}

// of returns the boosted CPU of a container, rounded up to a whole millicore.
func (b *Reboost) of(has recommender.Allocation) recommender.Allocation {
	to, base := has, has.Request
	if b.Target > 0 {
		base = min(base, b.Target)
	}
	to.Request = recommender.Amount(math.Ceil(float64(base) * b.Multiplier))
	if b.Most > 0 {
		to.Request = min(to.Request, b.Most)
	}
	switch {
	case has.Limit == 0:
	case has.Limit == has.Request: // the pod may be Guaranteed
		to.Limit = to.Request
	case b.LimitsFollow && b.Limits.Sets():
		to.Limit = max(has.Limit, b.Limits.Limit(has, has.Limit, to.Request, 0))
	case b.LimitsFollow:
		to.Limit = max(has.Limit, recommender.Amount(math.Ceil(float64(has.Limit)*float64(to.Request)/float64(has.Request))))
	default:
		to.Request = min(to.Request, has.Limit)
	}
	return to
}
