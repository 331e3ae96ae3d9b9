package targets

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// keepDuringBackfill keeps the stored targets while the history is read again: the same policy with the same settings
// would compute them again. Their age continues (dataUntil, validUntil), so that they become stale if the source
// never answers.
//
// It does not keep them if an input outside of the history has changed: a pause, another mode, a new hold, a floor
// above the target. The seed is computed again, because it depends on newly verified sizes and on regressions.
func keepDuringBackfill(stored, wanted v1alpha1.AttuneRecommendationSpec, v View) v1alpha1.AttuneRecommendationSpec {
	same := stored.Policy.UID == wanted.Policy.UID && stored.Mode == wanted.Mode && stored.SettingsDigest == wanted.SettingsDigest
	if !same || !podview.HasTarget(stored) || !blockedForData(wanted) || newlyBlocked(stored, wanted) || floored(stored, v) {
		return wanted
	}
	wanted.Containers, wanted.DataUntil = stored.Containers, stored.DataUntil
	wanted.Seed, wanted.SeedBlocked = seed(v, stored.Containers)
	if wanted.Seed != nil && stored.Seed != nil {
		wanted.Seed.ValidUntil = stored.Seed.ValidUntil
	}
	return wanted
}

// blockedForData reports that missing targets are the only reason for a missing seed (or that the settings allow no
// seed).
func blockedForData(spec v1alpha1.AttuneRecommendationSpec) bool {
	return spec.Seed != nil || slices.Contains([]string{seedAllBlocked, v1alpha1.ReasonAdmissionDisabled, seedOff("", spec.Mode)}, spec.SeedBlocked)
}

// newlyBlocked reports that the resources blocked for reasons outside of the history have changed, or that other
// containers are sized.
func newlyBlocked(stored, wanted v1alpha1.AttuneRecommendationSpec) bool {
	if len(stored.Containers) != len(wanted.Containers) {
		return true
	}
	for i, w := range wanted.Containers {
		s := stored.Containers[i]
		if s.Name != w.Name || outside(s.Holds) != outside(w.Holds) {
			return true
		}
	}
	return false
}

// outside returns the holds that have a reason outside of the history, as a comparable value.
func outside(holds []v1alpha1.Hold) (held struct{ hpaCPU, hpaMemory, vpa, capacity bool }) {
	by := func(reason string) bool {
		return slices.ContainsFunc(holds, func(h v1alpha1.Hold) bool { return h.Reason == reason })
	}
	held.vpa, held.capacity = by(resize.ReasonVPA), by(resize.ReasonNodeCapacity)
	held.hpaCPU = resize.HeldFor(holds, recommender.CPU, resize.ReasonHPA)
	held.hpaMemory = resize.HeldFor(holds, recommender.Memory, resize.ReasonHPA)
	return held
}

// floored reports that a floor learned from a regression is above a stored target, or above the floor of a stored
// memory limit.
func floored(stored v1alpha1.AttuneRecommendationSpec, v View) bool {
	for _, c := range stored.Containers {
		target := podview.FromResources(c.Target)
		floors := resize.RequestFloorsOf(v.Status.Floors, c.Name, v.OriginalOf(c.Name)[recommender.Memory].Limit, v.Now)
		if resize.OOMFloorOf(v.Status.Floors, c.Name, v.Now) > podview.FromPointer(recommender.Memory, c.MemoryLimitFloor) {
			return true
		}
		for _, r := range recommender.Resources {
			if floors[r].Amount > target[r].Request {
				return true
			}
		}
	}
	return false
}

// noise is the decrease of a target in percent that is not written. As the history window moves, every target changes
// a little, far inside the dead band of 10 % in which pods are not resized.
const noise = 2

// stepKept is the name of the last explanation step if the stored target is kept.
const stepKept = "kept"

// damp keeps the stored target of a container if the new one is a little lower. A higher target always applies, and a
// stored request that is not a whole amount is not kept. The explanation ends with the step kept.
func damp(stored []v1alpha1.ContainerTarget, t v1alpha1.ContainerTarget) v1alpha1.ContainerTarget {
	i := slices.IndexFunc(stored, func(s v1alpha1.ContainerTarget) bool { return s.Name == t.Name })
	if i < 0 {
		return t
	}
	before, now := podview.FromResources(stored[i].Target), podview.FromResources(t.Target)
	for _, r := range recommender.Resources {
		if noticeable(r, before[r], now[r]) || !resize.KeptRange(t, r).Contains(before[r].Request) {
			continue
		}
		if kept := before[r].Request; kept != now[r].Request && len(t.Steps) > 0 {
			t.Steps = append(t.Steps, v1alpha1.Step{
				Resource: r.String(), Name: stepKept, Before: recommender.Format(r, now[r].Request), After: recommender.Format(r, kept),
				Reason: fmt.Sprintf("the target does not change: it would fall by %d %% or less", noise),
			})
		}
		now[r] = before[r]
	}
	t.Target = podview.ToResources(now)
	return t
}

// noticeable reports whether a change of request or limit is written: a decrease of more than noise, any increase, or
// a change from a request that is not a whole amount.
func noticeable(r recommender.Resource, before, now recommender.Allocation) bool {
	return r.Whole(before.Request) != before.Request || !fellALittle(before.Request, now.Request) || !fellALittle(before.Limit, now.Limit)
}

// fellALittle reports whether an amount is unchanged or fell by at most noise percent. A fall to zero is never small:
// zero means that there is no target.
func fellALittle(before, now recommender.Amount) bool {
	return now == before || now < before && now > 0 && (before-now)*100 <= before*noise
}

// ReasonSpared is the reason of a hold on a resource that a cluster policy would lower, if Kubernetes or the operator
// itself depends on the pods.
const ReasonSpared = "NeverLowered"

// spared reports whether the workload's pods are never lowered.
func (v View) spared() bool {
	return v.Workload.Template != nil && v.Settings.Spared.Spares(&v.Workload.Template.Spec)
}

// blockDecreases blocks the resources of a target that would lower the container. Under strategy Node it blocks all
// resources, because a node's share may be lower at any time.
func (v View) blockDecreases(c *corev1.Container, t v1alpha1.ContainerTarget) v1alpha1.ContainerTarget {
	if !v.spared() {
		return t
	}
	original, target := v.original(c), podview.FromResources(t.Target)
	for _, r := range recommender.Resources {
		lower := target[r].Request > 0 && target[r].Request < original[r].Request
		if !resize.HeldFor(t.Holds, r) && (lower || v.Settings.Strategy == v1alpha1.StrategyNode) {
			t.Holds = append(slices.Clip(t.Holds), v1alpha1.Hold{Resource: r.String(), Reason: ReasonSpared, Message: whySpared[v.Settings.Spared]})
		}
	}
	return t
}

var whySpared = map[policy.Spared]string{
	policy.SpareCritical: "an AttuneClusterPolicy never lowers pods of system priority. Use an AttunePolicy in their namespace",
	policy.SpareAll:      "an AttuneClusterPolicy never lowers pods in the operator's own namespace",
}
