package targets

import (
	"fmt"
	"slices"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// keepDuringBackfill keeps the stored targets while the past is being read again: the same policy with the
// same settings would come to them once it is read. Their age goes on counting (dataUntil, validUntil), so
// that a source that never answers still makes them old.
//
// Not kept is what does not come from the history: a pause, another mode, a new hold, a floor above the
// target. The seed is computed anew, because it follows what the pods survived meanwhile and what harmed
// them.
func keepDuringBackfill(stored, wanted v1alpha1.AttuneRecommendationSpec, v View) v1alpha1.AttuneRecommendationSpec {
	same := stored.Policy.UID == wanted.Policy.UID && stored.Mode == wanted.Mode && stored.SettingsDigest == wanted.SettingsDigest
	if !same || !podview.HasTarget(stored) || !withheldForData(wanted) || newlyHeld(stored, wanted) || floored(stored, v) {
		return wanted
	}
	wanted.Containers, wanted.DataUntil = stored.Containers, stored.DataUntil
	wanted.Seed, wanted.SeedWithheld = seed(v, stored.Containers)
	if wanted.Seed != nil && stored.Seed != nil {
		wanted.Seed.ValidUntil = stored.Seed.ValidUntil
	}
	return wanted
}

// withheldForData reports that, if there is no seed, the only reason is that targets are missing (or the
// mode has no seeds).
func withheldForData(spec v1alpha1.AttuneRecommendationSpec) bool {
	return spec.Seed != nil || spec.SeedWithheld == seedHeld || spec.SeedWithheld == seedMode(spec.Mode)
}

// newlyHeld reports that something outside of the history holds a resource that it did not hold before (or
// the reverse), or that other containers are sized.
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

// outside returns the holds that do not come from a short history, as a comparable value.
func outside(holds []v1alpha1.Hold) (held struct{ hpaCPU, hpaMemory, vpa, capacity, implausible bool }) {
	by := func(reason string) bool {
		return slices.ContainsFunc(holds, func(h v1alpha1.Hold) bool { return h.Reason == reason })
	}
	held.vpa, held.capacity, held.implausible = by(resize.ReasonVPA), by(resize.ReasonNodeCapacity), by(string(recommender.UsageImplausible))
	held.hpaCPU = resize.HeldFor(holds, recommender.CPU, resize.ReasonHPA)
	held.hpaMemory = resize.HeldFor(holds, recommender.Memory, resize.ReasonHPA)
	return held
}

// floored reports that harm has taught a floor above a stored target, or above the floor of a stored memory limit.
func floored(stored v1alpha1.AttuneRecommendationSpec, v View) bool {
	for _, c := range stored.Containers {
		target := podview.FromResources(c.Target)
		floors := resize.RequestFloorsOf(v.Status.Floors, c.Name, v.originalOf(c.Name)[recommender.Memory].Limit, v.Now)
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

// noise is by how many percent a target may fall without being written: a history that slides along in
// time moves every target a little with each step, far inside the dead band of 10 % in which pods are not
// resized.
const noise = 2

// stepKept is the last step of a target that was stored before and is kept.
const stepKept = "kept"

// damp keeps the stored target of a container where the new one is a little lower. A higher target is
// never held back, and a stored request that is no whole amount is not kept. The explanation ends with a
// step named kept.
func damp(stored []v1alpha1.ContainerTarget, t v1alpha1.ContainerTarget) v1alpha1.ContainerTarget {
	i := slices.IndexFunc(stored, func(s v1alpha1.ContainerTarget) bool { return s.Name == t.Name })
	if i < 0 {
		return t
	}
	before, now := podview.FromResources(stored[i].Target), podview.FromResources(t.Target)
	for _, r := range recommender.Resources {
		if noticeable(r, before[r], now[r]) {
			continue
		}
		if kept := before[r].Request; kept != now[r].Request && len(t.Steps) > 0 {
			t.Steps = append(t.Steps, v1alpha1.Step{
				Resource: r.String(), Name: stepKept, Before: recommender.Format(r, now[r].Request), After: recommender.Format(r, kept),
				Reason: fmt.Sprintf("the target is kept: it would fall by no more than %d %%", noise),
			})
		}
		now[r] = before[r]
	}
	t.Target = podview.ToResources(now)
	return t
}

// noticeable reports whether a change of request or limit is worth storing: more than noise, or from a
// request that is no whole amount.
func noticeable(r recommender.Resource, before, now recommender.Allocation) bool {
	return r.Whole(before.Request) != before.Request || !fellALittle(before.Request, now.Request) || !fellALittle(before.Limit, now.Limit)
}

// fellALittle reports whether an amount is the same or fell by at most noise percent. A fall to zero is
// never little: zero means that there is no target.
func fellALittle(before, now recommender.Amount) bool {
	return now == before || now < before && now > 0 && (before-now)*100 <= before*noise
}
