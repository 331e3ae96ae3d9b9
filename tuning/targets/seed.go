package targets

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/withdraw"
)

// seedLifetime is how long a seed that is not renewed sizes new pods. After the operator stops or is uninstalled,
// stale seeds must not size pods forever. The stored seed is renewed at half of its lifetime.
const seedLifetime = 24 * time.Hour

// seedAllBlocked is why there is no seed if no container has an applicable target for any resource.
const seedAllBlocked = "Blocked"

// seedOff returns why the settings allow no seed: the mode does not size new pods, such as ModeObserve, or the setting
// admission is Disabled.
func seedOff(notSized string, mode v1alpha1.UpdateType) string {
	if notSized != "" {
		return v1alpha1.ReasonAdmissionDisabled
	}
	return "Mode" + string(mode)
}

// seed returns the admission resources of new pods, or nil and the reason, which is stored as spec.seedBlocked. By
// mode:
//   - Initial: the target.
//   - Canary and Auto: the last verified size (status.verified), with autoPromote off the last promoted one. A container
//     without one gets its target, but only as a raise.
//   - strategy Node: the highest usage of the last day.
//
// The revision is a hash of the content. A seed that caused a regression is marked bad by its revision
// (status.badSeeds), and the same content is not used again.
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
	case v.Workload.Queue != "": // Kueue counts the requests of the template
		return nil, resize.ReasonQueue
	case slices.ContainsFunc(targets, func(t v1alpha1.ContainerTarget) bool {
		return resize.HeldFor(t.Holds, recommender.Memory, resize.ReasonVPA) // a VPA blocks both resources
	}):
		return nil, resize.ReasonVPA
	case !v.Settings.SizesNewPods():
		return nil, seedOff(v.Settings.NotSized(), mode)
	}
	of := seeder{View: v, usesVerified: mode != v1alpha1.UpdateInitial && v.Settings.Strategy != v1alpha1.StrategyNode}
	out := &v1alpha1.Seed{ValidUntil: metav1.Time{Time: of.validUntil().UTC().Truncate(time.Second)}}
	for _, t := range targets {
		if c, ok := of.container(t); ok {
			out.Containers = append(out.Containers, c)
		}
	}
	if len(out.Containers) == 0 {
		return nil, seedAllBlocked
	}
	out.RaiseOnly = !slices.ContainsFunc(out.Containers, func(c v1alpha1.ContainerSeed) bool { return !c.RaiseOnly })
	out.Revision = clip.Digest(struct {
		RaiseOnly  bool
		Containers []v1alpha1.ContainerSeed
	}{out.RaiseOnly, out.Containers}, 6)
	// Not part of the revision: nodes come and go, and the seed stays the same.
	out.LargestPod = v.largestPod()
	if slices.Contains(v.Status.BadSeeds, out.Revision) {
		return nil, "SeedMarkedBad"
	}
	return out, ""
}

// seeder computes the seeds of a workload's containers.
type seeder struct {
	View
	// usesVerified reports that a verified size takes precedence over the target. A container without a verified size is
	// then only raised: new pods must not try a lower size that no running pod has survived. If a user has to promote
	// sizes, only a promoted size counts.
	usesVerified bool
}

// validUntil returns when a seed expires. With fresh data that is seedLifetime from now. A workload without pods
// keeps its seed as long as its history lasts, because the seed is for its next pod. If the source is silent, the
// seed is not renewed.
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

// container returns the seed of one container; false: it has no seed. Floors learned from OOM kills are applied last.
func (v seeder) container(t v1alpha1.ContainerTarget) (v1alpha1.ContainerSeed, bool) {
	verified := verifiedOf(v.Status.Verified, t.Name, v.Settings.Resize.AwaitsPromotion())
	s, stands := v.storedSeed(t)
	if !stands {
		s = v.fresh(t, verified)
	}
	s.RaiseOnly = s.RaiseOnly || v.usesVerified && verified == nil || v.fewRuns(t) || v.spared()
	if v.spared() { // ending a boost lowers the CPU
		s.AllowMemoryDecrease, s.CPUBoost = false, nil
	}
	v.answerKills(t, &s)
	pairSeed(&v, t, &s)
	if s.CPURequest != nil && t.Demand == nil {
		s.CPULimitRule = limitRule(v.Settings.For(t.Name).Of[recommender.CPU].Limits)
	}
	return s, s.CPURequest != nil || s.MemoryRequest != nil || s.MemoryLimitFloor != nil
}

// pairSeed sets the CPU request that belongs to the target of an HPA, which attune cannot change at present. It depends on no usage,
// so that old data do not matter. Bounds and learned minimums take precedence.
func pairSeed(v *seeder, t v1alpha1.ContainerTarget, s *v1alpha1.ContainerSeed) {
	if v.Paired == nil || !resize.HeldFor(t.Holds, recommender.CPU, resize.ReasonHPA) {
		return
	}
	paired := recommender.Size{recommender.CPU: {Request: v.Paired(t.Name, recommender.CPU)}}
	if paired != v.withinBounds(t.Name, v.aboveFloors(t.Name, paired)) {
		return
	}
	s.CPURequest = podview.ToPointer(recommender.CPU, paired[recommender.CPU].Request)
	s.CPULimitMost = limitMost(&v.View, t.Name, recommender.CPU)
}

// limitRule returns the rule for CPU limits of created pods; nil: the ratio counts.
func limitRule(rule recommender.LimitRule) *v1alpha1.CPULimitRule {
	if rule == (recommender.LimitRule{}) {
		return nil
	}
	return &v1alpha1.CPULimitRule{
		Remove: rule.Remove, RatioThousandths: int64(rule.Thousandths),
		Min: podview.ToPointer(recommender.CPU, rule.Min), Max: podview.ToPointer(recommender.CPU, rule.Max),
	}
}

// answerKills raises the seed after an OOM kill although memory is blocked (resize.OOMFloor). It raises the limit, or
// the request of a container without a limit. A request on which an HPA scales stays, and with it a limit equal to
// the request. Memory is not lowered then.
func (v seeder) answerKills(t v1alpha1.ContainerTarget, s *v1alpha1.ContainerSeed) {
	floor := resize.OOMFloor(t, v.Status.Floors, v.Now)
	if floor == 0 {
		return
	}
	s.AllowMemoryDecrease = false
	original, scaled := v.OriginalOf(t.Name)[recommender.Memory], resize.ScaledOn(t, recommender.Memory)
	switch {
	case original.Limit > 0 && v.Settings.For(t.Name).Of[recommender.Memory].LimitsFollow && !(scaled && (original.Request == 0 || original.Request == original.Limit)):
		s.MemoryLimitFloor = podview.ToPointer(recommender.Memory, max(floor, podview.FromPointer(recommender.Memory, s.MemoryLimitFloor)))
	case original.Limit == 0 && !scaled:
		s.MemoryRequest = podview.ToPointer(recommender.Memory, max(floor, podview.FromPointer(recommender.Memory, s.MemoryRequest)))
	}
}

// fresh computes a container's seed from its target, or from its verified size. A verified size is older than the
// template, the floors and the policy's bounds, so each of them is applied to it, in this order.
func (v seeder) fresh(t v1alpha1.ContainerTarget, verified *v1alpha1.Resources) v1alpha1.ContainerSeed {
	if t.Demand != nil {
		return nodeSeed(t)
	}
	size := podview.FromResources(t.Target)
	if v.usesVerified && verified != nil {
		size = v.withinBounds(t.Name, v.aboveFloors(t.Name, v.atLeastTemplate(t.Name, podview.FromResources(*verified))))
		if !v.verifiedUnderTheSameLimit(t.Name) {
			size[recommender.Memory].Request = recommender.Brake(size[recommender.Memory].Request, v.ceiling(t.Name))
		}
	}
	for _, r := range recommender.Resources {
		size[r].Request = withinKept(resize.KeptRange(t, r), r, size[r].Request)
	}
	settings := v.Settings.For(t.Name)
	s := v1alpha1.ContainerSeed{
		Name:                t.Name,
		AllowMemoryDecrease: settings.Of[recommender.Memory].AllowDecrease,
		CPULimitFollows:     settings.Of[recommender.CPU].LimitsFollow,
		MemoryLimitFollows:  settings.Of[recommender.Memory].LimitsFollow,
	}
	if req := size[recommender.CPU].Request; req > 0 && !barred(t.Holds, recommender.CPU) {
		s.CPURequest = podview.ToPointer(recommender.CPU, req)
		if !resize.ScaledOn(t, recommender.CPU) { // an HPA counts the boosted request
			s.CPUBoost = v.cpuBoost(t.Name)
		}
		s.CPULimitMost = limitMost(&v.View, t.Name, recommender.CPU)
		if s.CPULimitFollows {
			s.CPULimitFloor = t.CPULimitFloor
			if target := podview.FromResources(t.Target)[recommender.CPU]; settings.Of[recommender.CPU].Limits.Sets() && req < target.Request {
				// The limit of the target covers the usage, so it has no floor; that of a smaller verified request may not.
				s.CPULimitFloor = podview.ToPointer(recommender.CPU, max(podview.FromPointer(recommender.CPU, t.CPULimitFloor), target.Limit))
			}
		}
	}
	if barred(t.Holds, recommender.Memory) {
		s.MemoryLimitFloor = nil
	} else {
		s.MemoryRequest, s.MemoryLimit = podview.ToPointer(recommender.Memory, size[recommender.Memory].Request), v.followedLimit(t)
		floor := settings.Of[recommender.Memory].RaisedWithin(podview.FromPointer(recommender.Memory, t.MemoryLimitFloor),
			v.killed(t.Name, recommender.Memory), v.OriginalOf(t.Name)[recommender.Memory])
		s.MemoryLimitFloor, s.MemoryLimitMost = podview.ToPointer(recommender.Memory, floor), limitMost(&v.View, t.Name, recommender.Memory)
	}
	return s
}

// withinKept raises a request to the range that keeps the number of replicas. A verified size may be older than the range.
// Above the range it is 0: new pods get the request of their template.
func withinKept(kept *recommender.Kept, r recommender.Resource, request recommender.Amount) recommender.Amount {
	switch {
	case request == 0 || kept.Contains(request):
		return request
	case request < kept.Least:
		return r.WholeWithin(kept.Least, kept.Least, kept.Most)
	}
	return 0
}

// verifiedUnderTheSameLimit reports whether the pods with the verified size were created from a template with the current
// memory limit. The brake (recommender.Brake) applied while they grew, or OOM kills lifted it, so new pods need the
// same size.
func (v seeder) verifiedUnderTheSameLimit(container string) bool {
	for _, verified := range v.Status.Verified {
		for _, o := range v.Status.Originals {
			for _, c := range o.Containers {
				if verified.Name == container && c.Name == container && o.TemplateHash == verified.TemplateHash && verified.TemplateHash != "" {
					return podview.FromResources(c.Resources)[recommender.Memory].Limit == v.OriginalOf(container)[recommender.Memory].Limit
				}
			}
		}
	}
	return false
}

// ceiling returns the memory limit above which a container is not raised without an OOM kill, in bytes; 0: no
// ceiling.
func (v View) ceiling(container string) recommender.Amount {
	settings := &v.Settings.For(container).Of[recommender.Memory]
	if !settings.LimitsFollow {
		return 0
	}
	learned := resize.FloorsOf(v.Status.Floors, container, v.Now)[recommender.Memory]
	return recommender.MemoryCeiling(v.OriginalOf(container)[recommender.Memory], learned, settings.MinAllowed)
}

// storedSeed returns the stored seed of a container whose source is silent, without resources that are blocked for
// other reasons now; false: compute it again. An outage of a source must not change the size of new pods.
func (v seeder) storedSeed(t v1alpha1.ContainerTarget) (v1alpha1.ContainerSeed, bool) {
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
		s.CPURequest, s.CPUBoost, s.CPULimitFloor = nil, nil, nil
	}
	if resize.HeldFor(others, recommender.Memory) {
		s.MemoryRequest, s.MemoryLimit, s.MemoryLimitFloor = nil, nil, nil
	}
	return s, true
}

// upToDate applies the current floors and the policy's current settings to a stored seed: what the policy forbids since
// then, such as less memory, or limits that follow, ends at once.
func (v seeder) upToDate(s v1alpha1.ContainerSeed) v1alpha1.ContainerSeed {
	size := v.withinBounds(s.Name, v.aboveFloors(s.Name, podview.FromResources(v1alpha1.Resources{CPURequest: s.CPURequest, MemoryRequest: s.MemoryRequest})))
	s.CPURequest, s.MemoryRequest = podview.ToPointer(recommender.CPU, size[recommender.CPU].Request), podview.ToPointer(recommender.Memory, size[recommender.Memory].Request)
	of := &v.Settings.For(s.Name).Of
	s.AllowMemoryDecrease = s.AllowMemoryDecrease && of[recommender.Memory].AllowDecrease
	if s.CPUBoost != nil {
		s.CPUBoost = v.cpuBoost(s.Name)
	}
	if s.CPULimitFollows && !of[recommender.CPU].LimitsFollow {
		s.CPULimitFollows, s.CPULimitFloor = false, nil
	}
	if s.MemoryLimitFollows && !of[recommender.Memory].LimitsFollow { // a limit that does not follow would be one of strategy Node
		s.MemoryLimitFollows, s.MemoryLimit, s.MemoryLimitFloor = false, nil, nil
	}
	return s
}

// fewRuns reports that the target of a Job or CronJob depends on fewer than recommender.ProvenRuns whole runs and too
// little data. Such a target may only raise a request.
func (v seeder) fewRuns(t v1alpha1.ContainerTarget) bool {
	profile, settings := v.History.Profiles[t.Name], v.Settings.Recommender
	return v.batch() && int(t.DataPoints) < settings.MinimumDataPoints && profile.WholeRuns(settings.QueryStep, v.Now) < recommender.ProvenRuns
}

// aboveFloors raises a size to the learned floors: while a floor holds, no pod is created with a size that caused a
// regression, whatever the revision of the seed is.
func (v seeder) aboveFloors(container string, size recommender.Size) recommender.Size {
	floors := resize.RequestFloorsOf(v.Status.Floors, container, v.OriginalOf(container)[recommender.Memory].Limit, v.Now)
	for _, r := range recommender.Resources {
		if size[r].Request > 0 {
			size[r].Request = max(size[r].Request, floors[r].Amount)
		}
	}
	return size
}

// withinBounds limits a size to minAllowed and maxAllowed, which may be newer than the size. 0 is no maximum, and a
// request of 0 stays 0.
func (v seeder) withinBounds(container string, size recommender.Size) recommender.Size {
	for _, r := range recommender.Resources {
		of := &v.Settings.For(container).Of[r]
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

// cpuBoost returns the startup boost of a container; nil: not set. Most caps the boosted request at maxAllowed.
func (v seeder) cpuBoost(container string) *v1alpha1.CPUBoost {
	b := v.Settings.BoostOf(container)
	if b == nil {
		return nil
	}
	return &v1alpha1.CPUBoost{
		Multiplier: v1alpha1.Decimal(strconv.FormatFloat(b.Multiplier, 'f', -1, 64)),
		Most:       podview.ToPointer(recommender.CPU, v.Settings.For(container).Of[recommender.CPU].MaxAllowed),
	}
}

// verifiedOf returns the verified size of a container, or the promoted one; nil: there is none.
func verifiedOf(verified []v1alpha1.VerifiedResources, container string, promoted bool) *v1alpha1.Resources {
	v := podview.FirstIn(verified, func(v *v1alpha1.VerifiedResources) bool { return v.Name == container })
	switch {
	case v == nil:
		return nil
	case promoted:
		return v.Promoted
	}
	return &v.Size
}
