package policy

import (
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
)

// settled: histories that were restored have been continued. One that was not may only seem to have ended.
func (c *Controller) settled(settings policy.Settings, now time.Time) bool {
	state, _ := c.History.State(settings.Source)
	return !now.Before(state.SettledAt)
}

// complete: the past of the workload has been read. Until then, such as after a change of leader, an empty history means
// that nobody looked yet. What has been read of others does not matter: anybody may add a workload.
func (c *Controller) complete(p pass, w workload.Workload) bool {
	return p.settled && c.History.Read(p.key(w, ""))
}

// carriedOver keeps what was recommended when the past was known, while it is being read again: the same
// policy with the same settings would come to it. Its age keeps counting (dataUntil, validUntil). What
// does not come from history is not kept: a pause, another mode, a new hold, a floor above the target; nor
// is what new pods are given, which follows what the pods survived meanwhile and what harmed them.
func carriedOver(stored, wanted v1alpha1.AttuneRecommendationSpec, in inputs) v1alpha1.AttuneRecommendationSpec {
	same := stored.Policy.UID == wanted.Policy.UID && stored.Mode == wanted.Mode && stored.SettingsDigest == wanted.SettingsDigest
	if !same || !recommended(stored) || !withheldForData(wanted) || newlyHeld(stored, wanted) || floored(stored, in) {
		return wanted
	}
	wanted.Containers, wanted.DataUntil = stored.Containers, stored.DataUntil
	wanted.Seed, wanted.SeedWithheld = seed(in, stored.Containers)
	if wanted.Seed != nil && stored.Seed != nil {
		wanted.Seed.ValidUntil = stored.Seed.ValidUntil
	}
	return wanted
}

// recommended: there is a target to be kept.
func recommended(spec v1alpha1.AttuneRecommendationSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c v1alpha1.ContainerTarget) bool {
		return podview.FromResources(c.Target) != (recommender.Size{})
	})
}

// withheldForData: if there is no seed, it is for want of targets and nothing else.
func withheldForData(spec v1alpha1.AttuneRecommendationSpec) bool {
	return spec.Seed != nil || spec.SeedWithheld == seedHeld || spec.SeedWithheld == seedMode(spec.Mode)
}

// newlyHeld: something outside the history holds a resource now, or another container is sized.
func newlyHeld(stored, wanted v1alpha1.AttuneRecommendationSpec) bool {
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

// outside are the holds that do not come from the history, as a comparable value.
func outside(holds []v1alpha1.Hold) (held struct{ hpaCPU, hpaMemory, vpa bool }) {
	held.vpa = slices.ContainsFunc(holds, func(h v1alpha1.Hold) bool { return h.Reason == resize.ReasonVPA })
	held.hpaCPU = heldFor(holds, recommender.CPU, resize.ReasonHPA)
	held.hpaMemory = heldFor(holds, recommender.Memory, resize.ReasonHPA)
	return held
}

// floored: harm has taught a floor above a stored target.
func floored(stored v1alpha1.AttuneRecommendationSpec, in inputs) bool {
	for _, c := range stored.Containers {
		target, floors := podview.FromResources(c.Target), harm.FloorsOf(in.status.Floors, c.Name, in.now)
		for _, r := range recommender.Resources {
			if floors[r].Amount > target[r].Request {
				return true
			}
		}
	}
	return false
}
