package policy

import (
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
)

// seedLifetime is how long new pods are sized by a seed that is not renewed: an operator that is gone must not size
// pods for ever by what it once knew.
const seedLifetime = 24 * time.Hour

// seedHeld says that no resource of any container may be changed, or has a target.
const seedHeld = "Held"

// seedMode says that the mode does not size new pods.
func seedMode(mode v1alpha1.UpdateType) string { return "Mode" + string(mode) }

// seed is what new pods are given, by the mode: the target (Initial), the last kept size (Canary,
// Auto), or the target as a raise for a container of which no size is kept. Otherwise it says why there is none.
func seed(in inputs, targets []v1alpha1.ContainerTarget) (*v1alpha1.Seed, string) {
	mode := in.settings.Resize.Mode
	_, skipped := in.workload.Skipped()
	switch {
	case len(in.settings.Resize.Paused) > 0:
		return nil, v1alpha1.ReasonPaused
	case in.workload.Stopped() || in.status.Paused != nil:
		return nil, v1alpha1.ReasonPaused
	case in.workload.TooLarge():
		return nil, resize.ReasonTooLarge
	case skipped:
		return nil, "Skipped"
	case slices.ContainsFunc(targets, sizedByVPA):
		return nil, resize.ReasonVPA
	case mode != v1alpha1.UpdateInitial && mode != v1alpha1.UpdateCanary && mode != v1alpha1.UpdateAuto:
		return nil, seedMode(mode)
	}
	out := &v1alpha1.Seed{ValidUntil: metav1.Time{Time: in.validUntil().UTC().Truncate(time.Second)}}
	usesKept := mode != v1alpha1.UpdateInitial && in.settings.Strategy != v1alpha1.StrategyNode
	for _, t := range targets {
		if c, ok := containerSeed(in, t, usesKept); ok {
			out.Containers = append(out.Containers, c)
		}
	}
	if len(out.Containers) == 0 {
		return nil, seedHeld
	}
	out.RaiseOnly = !slices.ContainsFunc(out.Containers, func(c v1alpha1.ContainerSeed) bool { return !c.RaiseOnly })
	out.Revision = digest(struct {
		RaiseOnly  bool
		Containers []v1alpha1.ContainerSeed
	}{out.RaiseOnly, out.Containers})
	if slices.Contains(in.status.BadSeeds, out.Revision) {
		return nil, "SeedMarkedBad"
	}
	return out, ""
}

// validUntil is how long a seed holds. One of a workload that does not run holds for as long as its history does:
// the next pod is the one that it is for. One of a workload whose source is silent is not renewed.
func (in inputs) validUntil() time.Time {
	last, settings := newest(in.profiles), in.settings.Recommender
	switch {
	case last.IsZero() || in.now.Sub(last) <= settings.StaleAfter():
		return in.now.Add(seedLifetime)
	case in.silent && in.standing != nil:
		return in.standing.ValidUntil.Time
	}
	return last.Add(settings.HistoryWindow)
}

func containerSeed(in inputs, t v1alpha1.ContainerTarget, usesKept bool) (v1alpha1.ContainerSeed, bool) {
	kept := keptSize(in.status.Kept, t.Name)
	s, stands := in.stands(t)
	if !stands {
		s = in.freshSeed(t, usesKept, kept)
	}
	s.RaiseOnly = s.RaiseOnly || usesKept && kept == nil || in.fewRuns(t)
	if floor := autoscale.OOMFloor(t, in.status.Floors, in.now); floor > amount(s.MemoryRequest) {
		s.MemoryRequest, s.AllowMemoryDecrease = quantity(recommender.Memory, floor), false
	}
	return s, s.CPURequest != nil || s.MemoryRequest != nil
}

func (in inputs) freshSeed(t v1alpha1.ContainerTarget, usesKept bool, kept *v1alpha1.Resources) v1alpha1.ContainerSeed {
	if t.Demand != nil {
		return nodeSeed(t)
	}
	size := podview.FromResources(t.Target)
	if usesKept && kept != nil {
		size = in.withinBounds(in.aboveFloors(t.Name, in.notBelowMeant(t.Name, podview.FromResources(*kept))))
	}
	s := v1alpha1.ContainerSeed{
		Name:                t.Name,
		MemoryLimitFloor:    t.MemoryLimitFloor,
		AllowMemoryDecrease: in.settings.Recommender.Of[recommender.Memory].AllowDecrease,
		CPULimitFollows:     in.settings.Recommender.Of[recommender.CPU].LimitsFollow,
		MemoryLimitFollows:  in.settings.Recommender.Of[recommender.Memory].LimitsFollow,
	}
	if req := size[recommender.CPU].Request; req > 0 && !barred(t.Holds, recommender.CPU) {
		q := podview.Quantity(recommender.CPU, req)
		s.CPURequest, s.CPUBoost = &q, in.cpuBoost()
	}
	if req := size[recommender.Memory].Request; req > 0 && !barred(t.Holds, recommender.Memory) {
		q := podview.Quantity(recommender.Memory, req)
		s.MemoryRequest = &q
	}
	return s
}

// stands: the container's source is silent, and new pods go on to be given what they were, as far as nothing else
// holds it now.
func (in inputs) stands(t v1alpha1.ContainerTarget) (v1alpha1.ContainerSeed, bool) {
	if in.standing == nil || !heldFor(t.Holds, recommender.CPU, string(recommender.StaleData)) && !heldFor(t.Holds, recommender.Memory, string(recommender.StaleData)) {
		return v1alpha1.ContainerSeed{}, false
	}
	i := slices.IndexFunc(in.standing.Containers, func(c v1alpha1.ContainerSeed) bool { return c.Name == t.Name })
	if i < 0 {
		return v1alpha1.ContainerSeed{}, false
	}
	s := in.lately(*in.standing.Containers[i].DeepCopy())
	others := slices.DeleteFunc(slices.Clone(t.Holds), func(h v1alpha1.Hold) bool { return h.Reason == string(recommender.StaleData) })
	if held(others, recommender.CPU) {
		s.CPURequest, s.CPUBoost = nil, nil
	}
	if held(others, recommender.Memory) {
		s.MemoryRequest, s.MemoryLimit = nil, nil
	}
	return s, true
}

// lately is what stands of a seed, with what harm has taught and the policy has said since.
func (in inputs) lately(s v1alpha1.ContainerSeed) v1alpha1.ContainerSeed {
	size := in.withinBounds(in.aboveFloors(s.Name, podview.FromResources(v1alpha1.Resources{CPURequest: s.CPURequest, MemoryRequest: s.MemoryRequest})))
	s.CPURequest, s.MemoryRequest = quantity(recommender.CPU, size[recommender.CPU].Request), quantity(recommender.Memory, size[recommender.Memory].Request)
	return s
}

// fewRuns: the target of what runs now and then rests on so few runs that it may raise a request, but not lower one.
func (in inputs) fewRuns(t v1alpha1.ContainerTarget) bool {
	profile, settings := in.profiles[t.Name], in.settings.Recommender
	return in.batch() && int(t.DataPoints) < settings.MinimumDataPoints && profile.WholeRuns(settings.QueryStep, in.now) < recommender.ProvenRuns
}

func amount(q *resource.Quantity) recommender.Amount {
	if q == nil {
		return 0
	}
	return podview.AmountOf(recommender.Memory, *q)
}

// aboveFloors raises a kept size to what harm has taught since: no pod is born with what harmed another while its floor
// holds, whatever the seed's revision.
func (in inputs) aboveFloors(container string, size recommender.Size) recommender.Size {
	floors := harm.FloorsOf(in.status.Floors, container, in.now)
	for _, r := range recommender.Resources {
		if size[r].Request > 0 {
			size[r].Request = max(size[r].Request, floors[r].Amount)
		}
	}
	return size
}

// withinBounds brings a kept size within the policy's bounds, which may be younger.
func (in inputs) withinBounds(size recommender.Size) recommender.Size {
	for _, r := range recommender.Resources {
		of := in.settings.Recommender.Of[r]
		if size[r].Request == 0 {
			continue
		}
		size[r].Request = max(size[r].Request, of.MinAllowed)
		if of.MaxAllowed > 0 {
			size[r].Request = min(size[r].Request, of.MaxAllowed)
		}
	}
	return size
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
