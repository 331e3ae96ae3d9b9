package targets

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/withdraw"
)

// seedLifetime is how long new pods are sized by a seed that is not renewed: after the operator is
// uninstalled or stops, pods must not be sized for ever by old knowledge. The stored seed is renewed when
// half of it is over.
const seedLifetime = 24 * time.Hour

// seedHeld is why there is no seed where no resource of any container has a target that may be applied.
const seedHeld = "Held"

// seedMode is why there is no seed in a mode that does not size new pods, such as ModeObserve.
func seedMode(mode v1alpha1.UpdateType) string { return "Mode" + string(mode) }

// seed returns what new pods are born with, or nil with the reason, which is stored as spec.seedWithheld.
// By mode it is:
//   - Initial: the target.
//   - Canary and Auto: the last kept size, that is, one that running pods survived; for a container without
//     one, the target, but only as a raise.
//   - strategy Node: the highest usage of the last day.
//
// The revision is a hash of the content: a seed that harmed a pod is marked bad by it (status.badSeeds),
// and the same content is not used again.
func seed(v View, targets []v1alpha1.ContainerTarget) (*v1alpha1.Seed, string) {
	mode := v.Settings.Resize.Mode
	_, skipped := v.Workload.Skipped()
	switch {
	case len(v.Settings.Resize.Paused) > 0, v.Workload.Stopped(), v.Status.Paused != nil:
		return nil, v1alpha1.ReasonPaused
	case withdraw.Stands(v.Status.AdmissionWithdrawn, v.Now):
		return nil, v.Status.AdmissionWithdrawn.Reason
	case v.Workload.TooLarge():
		return nil, resize.ReasonTooLarge
	case skipped:
		return nil, "Skipped"
	case slices.ContainsFunc(targets, func(t v1alpha1.ContainerTarget) bool {
		return resize.HeldFor(t.Holds, recommender.Memory, resize.ReasonVPA) // a VPA holds both resources
	}):
		return nil, resize.ReasonVPA
	case !policy.SizesNewPods(mode):
		return nil, seedMode(mode)
	}
	of := seeder{View: v, usesKept: mode != v1alpha1.UpdateInitial && v.Settings.Strategy != v1alpha1.StrategyNode}
	out := &v1alpha1.Seed{ValidUntil: metav1.Time{Time: of.validUntil().UTC().Truncate(time.Second)}}
	for _, t := range targets {
		if c, ok := of.container(t); ok {
			out.Containers = append(out.Containers, c)
		}
	}
	if len(out.Containers) == 0 {
		return nil, seedHeld
	}
	out.RaiseOnly = !slices.ContainsFunc(out.Containers, func(c v1alpha1.ContainerSeed) bool { return !c.RaiseOnly })
	out.Revision = clip.Digest(struct {
		RaiseOnly  bool
		Containers []v1alpha1.ContainerSeed
	}{out.RaiseOnly, out.Containers}, 6)
	// No part of the revision: nodes come and go, and the seed stays the same.
	out.LargestPod = v.largestPod()
	if slices.Contains(v.Status.BadSeeds, out.Revision) {
		return nil, "SeedMarkedBad"
	}
	return out, ""
}

// seeder computes the seeds of a workload's containers.
type seeder struct {
	View
	// usesKept reports that a kept size is used before the target. A container without a kept size is then
	// only raised: a lower size that no pod has survived is not tried on new pods.
	usesKept bool
}

// validUntil is until when a seed is used. With fresh data that is seedLifetime from now. A workload that
// does not run keeps its seed for as long as its history lasts, because the seed is for its next pod. If
// the source is silent, the seed is not renewed.
func (v seeder) validUntil() time.Time {
	last, settings := Newest(v.History.Profiles), v.Settings.Recommender
	switch {
	case last.IsZero() || v.Now.Sub(last) <= settings.StaleAfter():
		return v.Now.Add(seedLifetime)
	case v.History.Silent && v.Stored.Seed != nil:
		return v.Stored.Seed.ValidUntil.Time
	}
	return last.Add(settings.HistoryWindow)
}

// container returns the seed of one container; false: it has none. What OOM kills taught is applied last.
func (v seeder) container(t v1alpha1.ContainerTarget) (v1alpha1.ContainerSeed, bool) {
	kept := keptSize(v.Status.Kept, t.Name)
	s, stands := v.stands(t)
	if !stands {
		s = v.fresh(t, kept)
	}
	s.RaiseOnly = s.RaiseOnly || v.usesKept && kept == nil || v.fewRuns(t) || v.spared()
	if v.spared() { // a boost is taken back by lowering
		s.AllowMemoryDecrease, s.CPUBoost = false, nil
	}
	v.answerKills(t, &s)
	return s, s.CPURequest != nil || s.MemoryRequest != nil || s.MemoryLimitFloor != nil
}

// answerKills raises what new pods get where memory is held, but not after an OOM kill (resize.OOMFloor): the limit,
// or the request of a container without a limit. A request on which an HPA scales stays, and with it a limit that
// equals the request. Memory is not lowered then.
func (v seeder) answerKills(t v1alpha1.ContainerTarget, s *v1alpha1.ContainerSeed) {
	floor := resize.OOMFloor(t, v.Status.Floors, v.Now)
	if floor == 0 {
		return
	}
	s.AllowMemoryDecrease = false
	original, scaled := v.originalOf(t.Name)[recommender.Memory], resize.HeldFor(t.Holds, recommender.Memory, resize.ReasonHPA)
	switch {
	case original.Limit > 0 && !(scaled && (original.Request == 0 || original.Request == original.Limit)):
		s.MemoryLimitFloor = podview.ToPointer(recommender.Memory, max(floor, podview.FromPointer(recommender.Memory, s.MemoryLimitFloor)))
	case original.Limit == 0 && !scaled:
		s.MemoryRequest = podview.ToPointer(recommender.Memory, max(floor, podview.FromPointer(recommender.Memory, s.MemoryRequest)))
	}
}

// fresh computes a container's seed from its target, or from the size that its pods survived. A kept size
// is older than the template, the floors and the policy's bounds, so that each of them is applied to it,
// in this order.
func (v seeder) fresh(t v1alpha1.ContainerTarget, kept *v1alpha1.Resources) v1alpha1.ContainerSeed {
	if t.Demand != nil {
		return nodeSeed(t)
	}
	size := podview.FromResources(t.Target)
	if v.usesKept && kept != nil {
		size = v.withinBounds(v.aboveFloors(t.Name, v.atLeastTemplate(t.Name, podview.FromResources(*kept))))
		if !v.keptUnderTheSameLimit(t.Name) {
			size[recommender.Memory].Request = recommender.Brake(size[recommender.Memory].Request, v.ceiling(t.Name))
		}
	}
	s := v1alpha1.ContainerSeed{
		Name:                t.Name,
		MemoryLimitFloor:    t.MemoryLimitFloor,
		AllowMemoryDecrease: v.Settings.Recommender.Of[recommender.Memory].AllowDecrease,
		CPULimitFollows:     v.Settings.Recommender.Of[recommender.CPU].LimitsFollow,
		MemoryLimitFollows:  v.Settings.Recommender.Of[recommender.Memory].LimitsFollow,
	}
	if req := size[recommender.CPU].Request; req > 0 && !barred(t.Holds, recommender.CPU) {
		s.CPURequest, s.CPUBoost = podview.ToPointer(recommender.CPU, req), v.cpuBoost()
	}
	if barred(t.Holds, recommender.Memory) {
		s.MemoryLimitFloor = nil
	} else {
		s.MemoryRequest = podview.ToPointer(recommender.Memory, size[recommender.Memory].Request)
	}
	return s
}

// keptUnderTheSameLimit reports whether the pods that survived the kept size were created from a template with the memory
// limit of the present one. The brake held while they grew, or kills lifted it, so that new pods need the same.
func (v seeder) keptUnderTheSameLimit(container string) bool {
	for _, kept := range v.Status.Kept {
		for _, o := range v.Status.Originals {
			for _, c := range o.Containers {
				if kept.Name == container && c.Name == container && o.TemplateHash == kept.TemplateHash && kept.TemplateHash != "" {
					return podview.FromResources(c.Resources)[recommender.Memory].Limit == v.originalOf(container)[recommender.Memory].Limit
				}
			}
		}
	}
	return false
}

// ceiling returns what no memory limit of a container is raised above without an OOM kill, in bytes; 0: there is none.
func (v View) ceiling(container string) recommender.Amount {
	settings := v.Settings.Recommender.Of[recommender.Memory]
	if !settings.LimitsFollow {
		return 0
	}
	learned := resize.FloorsOf(v.Status.Floors, container, v.Now)[recommender.Memory]
	return recommender.MemoryCeiling(v.originalOf(container)[recommender.Memory], learned, settings.MinAllowed)
}

// stands returns the stored seed of a container whose source is silent, as far as nothing else holds the
// resource now; false: it is to be computed anew. An outage of a source must not change what new pods are
// born with.
func (v seeder) stands(t v1alpha1.ContainerTarget) (v1alpha1.ContainerSeed, bool) {
	stale := resize.HeldFor(t.Holds, recommender.CPU, recommender.StaleData) || resize.HeldFor(t.Holds, recommender.Memory, recommender.StaleData)
	if v.Stored.Seed == nil || !stale {
		return v1alpha1.ContainerSeed{}, false
	}
	i := slices.IndexFunc(v.Stored.Seed.Containers, func(c v1alpha1.ContainerSeed) bool { return c.Name == t.Name })
	if i < 0 {
		return v1alpha1.ContainerSeed{}, false
	}
	s := v.upToDate(*v.Stored.Seed.Containers[i].DeepCopy())
	others := slices.DeleteFunc(slices.Clone(t.Holds), func(h v1alpha1.Hold) bool { return h.Reason == string(recommender.StaleData) })
	if resize.HeldFor(others, recommender.CPU) {
		s.CPURequest, s.CPUBoost = nil, nil
	}
	if resize.HeldFor(others, recommender.Memory) {
		s.MemoryRequest, s.MemoryLimit, s.MemoryLimitFloor = nil, nil, nil
	}
	return s, true
}

// upToDate applies to a stored seed what harm has taught and the policy has changed since.
func (v seeder) upToDate(s v1alpha1.ContainerSeed) v1alpha1.ContainerSeed {
	size := v.withinBounds(v.aboveFloors(s.Name, podview.FromResources(v1alpha1.Resources{CPURequest: s.CPURequest, MemoryRequest: s.MemoryRequest})))
	s.CPURequest, s.MemoryRequest = podview.ToPointer(recommender.CPU, size[recommender.CPU].Request), podview.ToPointer(recommender.Memory, size[recommender.Memory].Request)
	return s
}

// fewRuns reports that the target of a Job or CronJob depends on so few whole runs
// (recommender.ProvenRuns) that it may raise a request but not lower one.
func (v seeder) fewRuns(t v1alpha1.ContainerTarget) bool {
	profile, settings := v.History.Profiles[t.Name], v.Settings.Recommender
	return v.batch() && int(t.DataPoints) < settings.MinimumDataPoints && profile.WholeRuns(settings.QueryStep, v.Now) < recommender.ProvenRuns
}

// aboveFloors raises a size to what harm has taught: while a floor holds, no pod is born with what harmed
// another, whatever the revision of the seed is.
func (v seeder) aboveFloors(container string, size recommender.Size) recommender.Size {
	floors := resize.RequestFloorsOf(v.Status.Floors, container, v.originalOf(container)[recommender.Memory].Limit, v.Now)
	for _, r := range recommender.Resources {
		if size[r].Request > 0 {
			size[r].Request = max(size[r].Request, floors[r].Amount)
		}
	}
	return size
}

// withinBounds brings a size within minAllowed and maxAllowed, which may be newer than the size. 0 is no
// maximum, and a request of 0 stays 0.
func (v seeder) withinBounds(size recommender.Size) recommender.Size {
	for _, r := range recommender.Resources {
		of := v.Settings.Recommender.Of[r]
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

// cpuBoost returns the startup boost of the policy; nil: it has none. Most bounds the boosted request by
// maxAllowed.
func (v seeder) cpuBoost() *v1alpha1.CPUBoost {
	b := v.Settings.StartupBoost
	if b == nil {
		return nil
	}
	return &v1alpha1.CPUBoost{
		Multiplier: v1alpha1.Decimal(strconv.FormatFloat(b.Multiplier, 'f', -1, 64)),
		Most:       podview.ToPointer(recommender.CPU, v.Settings.Recommender.Of[recommender.CPU].MaxAllowed),
	}
}

// keptSize returns the size that pods survived for a container; nil: none is kept.
func keptSize(kept []v1alpha1.KeptSize, container string) *v1alpha1.Resources {
	for i := range kept {
		if kept[i].Name == container {
			return &kept[i].Size
		}
	}
	return nil
}
