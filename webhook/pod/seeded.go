package pod

import (
	"slices"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// recall finds the size with which a pod was created, if an earlier call has already seeded it. The annotation is
// only a hint, because a user of the namespace may have written it: an original is accepted only if this seed turns
// it into the container's present size. Otherwise the present size counts as the original. All claims are applied
// first, because the pod's class, which decides how every container is fitted, depends on all of them together. They
// are checked again until none is dropped. If no claim of the annotation remains, the pod counts as new and may get
// its boosts.
func recall(p *Pod, units []unit, rec *Recommendation, ns *Namespace) {
	written := p.Metadata.Annotations[v1alpha1.SeededAnnotation]
	if written == "" {
		return
	}
	var seeded v1alpha1.Seeded
	err := workload.UnmarshalBounded([]byte(written), &seeded)
	if err != nil || seeded.Recommendation != rec.Name || seeded.Revision != rec.Seed.Revision {
		return
	}
	claim(units, &seeded)
	for fell := true; fell; {
		seedUnits(p, units, rec.Seed, podview.GenerationOf(p.Metadata.Labels), ns, &Decision{})
		fell = dropClaims(units)
	}
	if !slices.ContainsFunc(units, unit.believed) {
		for i := range units {
			units[i].boost = units[i].mayBoost()
		}
	}
}

// believed reports whether a claim of the annotation explains the container's present size.
func (u unit) believed() bool { return u.was != u.is || u.claimed }

// dropClaims removes originals that do not explain the container's size, and reports whether there were any. Each
// round of recall's loop removes at least one, so the loop ends.
func dropClaims(units []unit) (fell bool) {
	for i := range units {
		u := &units[i]
		for _, r := range recommender.Resources {
			// The size without a volume that keeps the limit is accepted too: another webhook may have added that
			// volume since. So is a request just below its limit (stayBurstable).
			explained := u.will[r] == u.is[r] || podview.BelowLimit(u.will[r]) == u.is[r] || r == recommender.Memory && u.unkept.Request > 0 && u.unkept == u.is[r]
			if !explained && u.was[r] != u.is[r] {
				u.was[r], fell = u.is[r], true
				u.boost, u.claimed = u.mayBoost(), false
			}
		}
	}
	return fell
}

// claim applies the originals and boosts of an annotation without checking them.
func claim(units []unit, seeded *v1alpha1.Seeded) {
	for i := range units {
		u := &units[i]
		for j := range seeded.Original {
			if o := &seeded.Original[j]; o.Name == u.Name {
				u.was = podview.FromResources(o.Resources)
			}
		}
		u.boost = u.boost && slices.ContainsFunc(seeded.Boosted, func(b v1alpha1.BoostedContainer) bool { return b.Name == u.Name })
		u.claimed = u.boost
	}
}

// annotation is the value of the annotation for a pod (v1alpha1.Seeded): the originals of the containers that were
// changed; empty if none was. Equal pods get equal bytes.
func annotation(units []unit, rec *Recommendation) string {
	if !slices.ContainsFunc(units, unit.moved) {
		return ""
	}
	b := make([]byte, 0, 128+128*len(units))
	b = append(b, `{"recommendation":`...)
	b = appendString(b, rec.Name)
	b = append(b, `,"revision":`...)
	b = appendString(b, rec.Seed.Revision)
	b = append(b, `,"original":[`...)
	for i := range units {
		if u := &units[i]; u.moved() {
			b = appendOriginal(b, u)
			b = append(b, ',')
		}
	}
	b[len(b)-1] = ']'
	b = appendBoosts(b, units)
	return string(append(b, '}'))
}

// appendBoosts adds the boosts, and the sizes after them. The workload loop reads them to end the boosts
// (lifecycle.Boosted).
func appendBoosts(b []byte, units []unit) []byte {
	first := true
	for i := range units {
		u := &units[i]
		if !u.boosted() {
			continue
		}
		if first {
			b, first = append(b, `,"boosted":[`...), false
		}
		b = append(b, `{"name":`...)
		b = appendString(b, u.Name)
		b = appendField(b, "cpuRequest", recommender.CPU, u.will[recommender.CPU].Request)
		b = appendField(b, "baseCPURequest", recommender.CPU, u.plain.Request)
		b = appendField(b, "baseCPULimit", recommender.CPU, u.plain.Limit)
		b = append(b, "},"...)
	}
	if first {
		return b
	}
	b[len(b)-1] = ']'
	return b
}

// moved reports whether the container's size differs from the one that it was created with, if only during a boost.
func (u unit) moved() bool { return u.will != u.was || u.boosted() }

// appendOriginal adds one container's original in the JSON form of v1alpha1.ContainerResources.
func appendOriginal(b []byte, u *unit) []byte {
	b = append(b, `{"name":`...)
	b = appendString(b, u.Name)
	b = appendField(b, "cpuRequest", recommender.CPU, u.was[recommender.CPU].Request)
	b = appendField(b, "cpuLimit", recommender.CPU, u.was[recommender.CPU].Limit)
	b = appendField(b, "memoryRequest", recommender.Memory, u.was[recommender.Memory].Request)
	b = appendField(b, "memoryLimit", recommender.Memory, u.was[recommender.Memory].Limit)
	return append(b, '}')
}

// appendField adds a member for an amount; it skips 0.
func appendField(b []byte, name string, r recommender.Resource, a recommender.Amount) []byte {
	if a == 0 {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return appendAmount(b, r, a)
}
