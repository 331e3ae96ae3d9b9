package tuning

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// promote marks the verified sizes that a user promoted (v1alpha1.PromoteAnnotation). They stay promoted if the
// annotation is removed, and until a later size is promoted.
func (d *learned) promote() {
	at := d.view.owner().PromotedAt()
	if at.IsZero() || !d.view.Policy.Settings.Resize.AwaitsPromotion() {
		return
	}
	for i, v := range d.verified {
		if !v.Since.After(at) && (v.Promoted == nil || podview.FromResources(*v.Promoted) != podview.FromResources(v.Size)) {
			d.verified[i].Promoted = v.Size.DeepCopy()
		}
	}
}

// promoted returns the plans that wait for no promotion, and refuses the others once the first wave is verified.
func (d *starter) promoted(plans []resize.Plan) []resize.Plan {
	rules := d.view.Policy.Settings.Resize
	if !rules.AwaitsPromotion() {
		return plans
	}
	live, lowered := d.view.Live(), 0
	for _, pod := range live {
		if d.belowPromoted(pod) {
			lowered++
		}
	}
	going, waiting := resize.Promoted(plans, d.learned.verified, lowered, len(live), rules, func(p resize.Plan) bool {
		return d.belowPromoted(d.view.Pod(p.PodUID))
	})
	if len(d.records.open) == 0 {
		for _, p := range waiting {
			d.reports.refused.add(d.view.Pod(p.PodUID), d.awaitsPromotion(lowered, len(live)))
		}
	}
	return going
}

// belowPromoted reports whether a pod belongs to the first wave of a size that is not promoted: it has less than the
// promoted size or, without one, than its original resources.
func (d *starter) belowPromoted(pod *corev1.Pod) bool {
	least := d.learned.before(pod)
	for _, v := range d.learned.verified {
		if _, known := least[v.Name]; known && v.Promoted != nil {
			least[v.Name] = podview.FromResources(*v.Promoted)
		}
	}
	specs := podview.Specs(pod)
	for _, r := range d.records.open {
		if r.PodUID == pod.UID {
			for name, size := range podview.SizesOf(r.Desired) {
				specs[name] = size
			}
		}
	}
	for name, size := range least {
		spec, has := specs[name]
		if has && slices.ContainsFunc(recommender.Resources[:], func(r recommender.Resource) bool {
			return spec[r].Request < size[r].Request || spec[r].Limit > 0 && spec[r].Limit < size[r].Limit
		}) {
			return true
		}
	}
	return false
}

// awaitsPromotion is the refusal of the pods after the first wave.
func (d *starter) awaitsPromotion(lowered, pods int) *resize.Refusal {
	var sizes []string
	for _, v := range d.learned.verified {
		if v.Promoted != nil && podview.FromResources(*v.Promoted) == podview.FromResources(v.Size) {
			continue
		}
		size := podview.FromResources(v.Size)
		sizes = append(sizes, fmt.Sprintf("container %s requests %s of CPU and %s of memory since %s", v.Name,
			recommender.Format(recommender.CPU, size[recommender.CPU].Request), recommender.Format(recommender.Memory, size[recommender.Memory].Request),
			v.Since.UTC().Format(time.RFC3339)))
	}
	if len(sizes) == 0 {
		return resize.RefuseForNow(resize.ReasonAwaitsPromotion, "the first wave of %d pods tries a new size, which is not verified yet", lowered)
	}
	return resize.Refuse(resize.ReasonAwaitsPromotion, "%d of %d pods run with a verified size that is not promoted: %s. Run kubectl attune promote %s, or set canary.autoPromote: true",
		lowered, pods, strings.Join(sizes, ", "), d.view.commandLine())
}
