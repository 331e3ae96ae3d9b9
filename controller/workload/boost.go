package workload

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// takeBoostsBack begins to take back the boosts that are over, as many as there is room for records.
func (d *decision) takeBoostsBack(w world) {
	for _, pod := range w.live() {
		boosted := boostedOf(w, pod)
		if len(boosted) == 0 || hasRecord(d.status.Records, pod) || w.unread.of(pod) != nil {
			continue
		}
		left, known := resize.BoostLeft(pod, boosted, w.boostFor(), w.now)
		if known && left > 0 {
			d.wake(left)
		}
		if !known || left > 0 {
			continue
		}
		plan, refusal := resize.BoostPlan(pod, boosted, d.capabilities(w, pod), w.now)
		if refusal == nil {
			plan, refusal = resize.Admit(pod, plan, d.gateWorld(w, pod))
		}
		if refusal != nil {
			d.refused.add(pod, refusal)
			continue
		}
		d.start(w, pod, plan)
	}
}

// boostFor is how long a boost lasts; one that a policy no longer has ends with readiness.
func (w world) boostFor() time.Duration {
	if b := w.settings.StartupBoost; b != nil {
		return b.Duration
	}
	return 0
}

// boostedOf are the containers of a pod that still have the CPU they were given to start with.
func boostedOf(w world, pod *corev1.Pod) []podview.Container {
	if !strings.Contains(pod.Annotations[v1alpha1.SeededAnnotation], `"boosted"`) {
		return nil
	}
	seeded := seededOf(pod)
	if seeded == nil || seeded.Recommendation != w.rec.Name {
		return nil
	}
	return resize.Boosted(pod, *seeded, w.settings.Recommender.Of[recommender.CPU].MinAllowed)
}

// besideBoosts leaves CPU that is to be taken back out of wishes: steps towards a target do not touch it.
func besideBoosts(wishes, boosted []podview.Container) []podview.Container {
	for i := range wishes {
		for _, b := range boosted {
			if b.Name == wishes[i].Name {
				wishes[i].Size[recommender.CPU] = recommender.Allocation{}
			}
		}
	}
	return wishes
}
