package targets

import (
	"fmt"
	"slices"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// noise is the part of a target, in percent, by which it may fall without being news: a history that
// slides along moves every target a little with each step, far inside the dead band of 10 %.
const noise = 2

// stepKept is the last step of a target that was stored before and is kept.
const stepKept = "kept"

// damp keeps the stored target of a container where the new one is a little lower; what is higher is
// never held back, and a request that is no whole amount is not kept. The explanation ends with what is kept.
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

func noticeable(r recommender.Resource, before, now recommender.Allocation) bool {
	return r.Whole(before.Request) != before.Request || !fellALittle(before.Request, now.Request) || !fellALittle(before.Limit, now.Limit)
}

func fellALittle(before, now recommender.Amount) bool {
	return now == before || now < before && now > 0 && (before-now)*100 <= before*noise
}
