package resize

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// ReasonBoost: a pod's CPU to start with is taken back.
const ReasonBoost = "StartupBoost"

// mostBoosts are the open records that the ends of boosts may take; the rest are left to growth after OOM kills, and to
// steps. boostWatch is how long they are watched at most, so that a rollout of thousands of pods is over in an hour: the
// size that they end with is a proven one, and what throttles shows in one rate window.
const (
	mostBoosts = v1alpha1.MaxRecords * 3 / 5
	boostWatch = time.Minute
)

// boostsFull: as many boosts end as may at once.
func boostsFull(_ *corev1.Pod, _ Plan, w World) *Refusal {
	if open := len(w.Status.Records) - steps(w.Status.Records, nil); open >= mostBoosts {
		return wait(ReasonRecordsFull, "the boosts of %d pods of the workload are being taken back, which is the most there can be at once", open)
	}
	return nil
}

// Boosted are the containers that still have the CPU that they were given to start with, each with the CPU to
// be left with. The note of it is a hint that anybody in the namespace may have written: it is believed where
// the container has what it says, and only to lower it, to no less than a boost can have made it from.
// least is what the policy lowers requests to at most.
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

func baseOf(b v1alpha1.BoostedContainer) recommender.Allocation {
	return recommender.Allocation{
		Request: podview.AmountOf(recommender.CPU, b.BaseCPURequest), Limit: podview.FromPointer(recommender.CPU, b.BaseCPULimit),
	}
}

func plausible(has, base recommender.Allocation, least recommender.Amount) bool {
	switch {
	case base.Request == 0 || base.Request >= has.Request || base.Request < least || base.Request*v1alpha1.MaxBoost < has.Request:
		return false
	case has.Limit == 0 || base.Limit == 0:
		return has.Limit == base.Limit
	}
	return base.Request <= base.Limit && base.Limit <= has.Limit
}

// BoostLeft is how long the boost of a pod's containers still lasts: until they have run for its duration, and
// until the pod is ready, whichever is later. False: nobody knows, as it is not ready or one of them does not
// run.
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

// BoostPlan takes the boost of a pod's containers back.
func BoostPlan(pod *corev1.Pod, boosted []podview.Container, caps Capabilities, now time.Time) (Plan, *Refusal) {
	plan, refusal := PlanFor(pod, boosted, caps, now)
	plan.Wave, plan.Reason = WaveBoost, ReasonBoost
	return plan, refusal
}
