package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
)

// ramped reports whether containers climb in the world of a seed: in a third of them. The others stay what they were.
func ramped(seed uint64) bool { return rand.New(rand.NewPCG(seed, 0x4a36)).IntN(3) == 0 }

// drawRamps has some workloads climb: once, in spikes that recede, in leaks that go on, in saws, at 0.1 to 100 MiB/s. It has
// random numbers of its own, as further has.
func (p *plan) drawRamps(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x4a31))
	p.Climbs, p.Sampled = true, pick[time.Duration](r, 5, 15, 15, 30, 60)*time.Second
	p.Labelled = p.Seeds && r.IntN(2) == 0
	climbs := 1 + r.IntN(len(p.Workloads))
	for n, i := range r.Perm(len(p.Workloads)) {
		if of := &p.Workloads[i]; n < climbs {
			of.Demand.ramp = drawnRamp(r, *of, p.Length-p.Calm)
		}
	}
	for i := range p.Policies {
		spec := &p.Policies[i].Spec
		if r.IntN(2) == 0 {
			spec.UpdateStrategy.Type, spec.Memory.ControlledValues = ptr(v1alpha1.UpdateAuto), nil
		}
		if r.IntN(4) == 0 {
			spec.Memory.MaxAllowed = ptr(resource.MustParse(pick(r, "64Mi", "300Mi", "1Gi", "4Gi")))
		}
	}
}

// drawnRamp of a workload. Half of them are measured by what it needs, half by the limit that it comes with.
func drawnRamp(r *rand.Rand, of workloadPlan, span time.Duration) ramp {
	top := of.Demand.memory
	if limit := float64(of.Containers[0].Resources.Limits.Memory().Value()); limit > top && r.IntN(2) == 0 {
		top = limit - of.Demand.memory
	}
	out := ramp{
		varied: true,
		from:   beginning.Add(time.Duration(r.Int64N(int64(span / 2)))), apart: pick(r, 0, 0, 2*time.Second, 10*time.Minute, 2*time.Hour),
		top: top * (0.3 + 2*r.Float64()), stalls: r.IntN(3) == 0,
	}
	out.speed = min(max(0.1*mib, out.top/(10*math.Pow(360, r.Float64()))), 100*mib) // within 10 s to an hour
	climbs := time.Duration(out.top / out.speed * float64(time.Second))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(r.Int64N(int64(most-least)))
	}
	switch pick(r, "once", "spikes", "spikes", "leak", "saw") {
	case "once":
		out.until = out.from.Add(min(climbs, 3*time.Hour) + between(time.Minute, 4*time.Hour))
	case "spikes":
		out.lasts = min(climbs, 2*time.Hour) + between(20*time.Second, 40*time.Minute)
		out.every = out.lasts + between(5*time.Minute, 6*time.Hour)
		out.until = out.from.Add(between(6*time.Hour, 60*time.Hour))
	case "leak":
		out.own, out.speed, out.top = true, out.speed/10, 1<<50
		out.until = out.from.Add(between(time.Hour, 8*time.Hour))
	default:
		out.lasts = min(climbs, 2*time.Hour) + between(time.Second, 2*time.Minute)
		out.every = out.lasts
		out.until = out.from.Add(between(time.Hour, 30*time.Hour))
	}
	return out
}
