package policy

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// seedLifetime is how long new pods are sized by a seed that nobody renews: an operator that is gone
// must not size pods for ever by what it once knew.
const seedLifetime = 24 * time.Hour

// seedHeld says that no resource of any container may be changed, or has a target.
const seedHeld = "Held"

// seedMode says that the mode does not size new pods.
func seedMode(mode v1alpha1.UpdateType) string { return "Mode" + string(mode) }

// seed is what new pods are given, by the mode: the target (Initial), the last kept size (Canary,
// Auto), or the target as a raise where no size is kept yet. Otherwise it says why there is none.
func seed(in inputs, targets []v1alpha1.ContainerTarget) (*v1alpha1.Seed, string) {
	mode := in.settings.Resize.Mode
	_, skipped := in.workload.Skipped()
	switch {
	case len(in.settings.Resize.Paused) > 0:
		return nil, v1alpha1.ReasonPaused
	case in.workload.Stopped() || in.status.Paused != nil:
		return nil, v1alpha1.ReasonPaused
	case skipped:
		return nil, "Skipped"
	case slices.ContainsFunc(targets, sizedByVPA):
		return nil, resize.ReasonVPA
	case mode != v1alpha1.UpdateInitial && mode != v1alpha1.UpdateCanary && mode != v1alpha1.UpdateAuto:
		return nil, seedMode(mode)
	}
	out := &v1alpha1.Seed{ValidUntil: metav1.Time{Time: in.now.Add(seedLifetime).UTC().Truncate(time.Second)}}
	usesKept := mode != v1alpha1.UpdateInitial && in.settings.Strategy != v1alpha1.StrategyNode
	out.RaiseOnly = usesKept && len(in.status.Kept) == 0
	for _, t := range targets {
		if c, ok := containerSeed(in, t, usesKept); ok {
			out.Containers = append(out.Containers, c)
		}
	}
	if len(out.Containers) == 0 {
		return nil, seedHeld
	}
	out.Revision = digest(struct {
		RaiseOnly  bool
		Containers []v1alpha1.ContainerSeed
	}{out.RaiseOnly, out.Containers})
	if slices.Contains(in.status.BadSeeds, out.Revision) {
		return nil, "SeedMarkedBad"
	}
	return out, ""
}

func containerSeed(in inputs, t v1alpha1.ContainerTarget, usesKept bool) (v1alpha1.ContainerSeed, bool) {
	size := resize.FromResources(t.Target)
	if kept := keptSize(in.status.Kept, t.Name); usesKept && kept != nil {
		size = in.notBelowMeant(t.Name, resize.FromResources(*kept))
	}
	s := v1alpha1.ContainerSeed{
		Name:                t.Name,
		MemoryLimitFloor:    t.MemoryLimitFloor,
		AllowMemoryDecrease: in.settings.Recommender.Of[recommender.Memory].AllowDecrease,
		CPULimitFollows:     in.settings.Recommender.Of[recommender.CPU].LimitsFollow,
		MemoryLimitFollows:  in.settings.Recommender.Of[recommender.Memory].LimitsFollow,
	}
	if t.Demand != nil {
		s, size = nodeSeed(t), recommender.Size{}
	}
	if req := size[recommender.CPU].Request; req > 0 && !held(t.Holds, recommender.CPU) {
		q := resize.Quantity(recommender.CPU, req)
		s.CPURequest, s.CPUBoost = &q, in.cpuBoost()
	}
	if req := size[recommender.Memory].Request; req > 0 && !held(t.Holds, recommender.Memory) {
		q := resize.Quantity(recommender.Memory, req)
		s.MemoryRequest = &q
	}
	if floor := autoscale.OOMFloor(t, in.status.Floors, in.now); floor > 0 {
		s.MemoryRequest, s.AllowMemoryDecrease = quantity(recommender.Memory, floor), false
	}
	return s, s.CPURequest != nil || s.MemoryRequest != nil
}

// cpuBoost is what the policy gives a starting container, within its own bounds.
func (in inputs) cpuBoost() *v1alpha1.CPUBoost {
	b := in.settings.StartupBoost
	if b == nil {
		return nil
	}
	return &v1alpha1.CPUBoost{
		Multiplier: v1alpha1.Decimal(strconv.FormatFloat(b.Multiplier, 'f', -1, 64)),
		Most:       quantity(recommender.CPU, in.settings.Recommender.Of[recommender.CPU].MaxAllowed),
	}
}

func keptSize(kept []v1alpha1.KeptSize, container string) *v1alpha1.Resources {
	for i := range kept {
		if kept[i].Name == container {
			return &kept[i].Size
		}
	}
	return nil
}
