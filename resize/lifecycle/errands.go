package lifecycle

import (
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
// from (plausible). least is the lowest request that the policy allows, in millicores; 0: no bound.
func Boosted(pod *corev1.Pod, seeded v1alpha1.Seeded, least recommender.Amount) []podview.Container {
	var boosted []podview.Container
	for _, c := range podview.Resizable(pod) {
		i := slices.IndexFunc(seeded.Boosted, func(b v1alpha1.BoostedContainer) bool { return b.Name == c.Name })
		if i < 0 {
			continue
		}
		has, base := podview.ReadSpec(c.Resources)[recommender.CPU], baseOf(seeded.Boosted[i])
		if has.Request == podview.AmountOf(recommender.CPU, seeded.Boosted[i].CPURequest) && plausible(has, base, least) {
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
