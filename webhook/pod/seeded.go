package pod

import (
	"slices"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/quantity"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// recall finds what a pod was created with where an earlier call has seeded it. The annotation is a
// hint that anybody may have written: an original is believed only where this very seed makes of it
// what the container has now; else what the container has now is its original.
func recall(p *Pod, units []unit, rec *Recommendation, ns *Namespace) {
	written := p.Metadata.Annotations[v1alpha1.SeededAnnotation]
	if written == "" {
		return
	}
	var seeded v1alpha1.Seeded
	err := quantity.Unmarshal([]byte(written), &seeded)
	if err != nil || seeded.Recommendation != rec.Name || seeded.Revision != rec.Seed.Revision {
		return
	}
	claim(units, &seeded)
	// What one claim makes of the pod's class bears on the others, so they are weighed again until none falls.
	for fell := true; fell; {
		seedUnits(units, rec.Seed, podview.GenerationOf(p.Metadata.Labels), ns, &Decision{})
		fell = dropClaims(units)
	}
	if !slices.ContainsFunc(units, unit.believed) {
		for i := range units {
			units[i].boost = units[i].mayBoost()
		}
	}
}

// believed: something of what the annotation tells of the container explains what it has.
func (u unit) believed() bool { return u.was != u.is || u.claimed }

// dropClaims takes back the originals that do not explain what the container has, and reports whether
// there were any.
func dropClaims(units []unit) (fell bool) {
	for i := range units {
		u := &units[i]
		for _, r := range recommender.Resources {
			if u.will[r] != u.is[r] && u.was[r] != u.is[r] {
				u.was[r], fell = u.is[r], true
				u.boost, u.claimed = u.mayBoost(), false
			}
		}
	}
	return fell
}

// claim takes the originals and the boosts that an annotation tells of at its word.
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

// annotation is the v1alpha1.Seeded of a pod: the originals of the containers that were moved; empty
// if none was. The same pod gets the same bytes.
func annotation(units []unit, rec *Recommendation) string {
	if !moved(units) {
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

// appendBoosts tells what was given to start with, and what is left of it afterwards.
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

func moved(units []unit) bool {
	for i := range units {
		if units[i].moved() {
			return true
		}
	}
	return false
}

// moved: the container has something else than it was created with, if only for a while.
func (u *unit) moved() bool { return u.will != u.was || u.boosted() }

func appendOriginal(b []byte, u *unit) []byte {
	b = append(b, `{"name":`...)
	b = appendString(b, u.Name)
	b = appendField(b, "cpuRequest", recommender.CPU, u.was[recommender.CPU].Request)
	b = appendField(b, "cpuLimit", recommender.CPU, u.was[recommender.CPU].Limit)
	b = appendField(b, "memoryRequest", recommender.Memory, u.was[recommender.Memory].Request)
	b = appendField(b, "memoryLimit", recommender.Memory, u.was[recommender.Memory].Limit)
	return append(b, '}')
}

func appendField(b []byte, name string, r recommender.Resource, a recommender.Amount) []byte {
	if a == 0 {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return appendAmount(b, r, a)
}
