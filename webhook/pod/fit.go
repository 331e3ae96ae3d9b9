package pod

import (
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// frame holds the conditions that apply to all containers of a pod.
type frame struct {
	// class is that of the pod as it was created; bounds are those of its namespace.
	class  corev1.PodQOSClass
	bounds *constraint.Bounds
	// largest is what the pod may request at most (requests), and what limits are raised to at most (limits); 0: not known.
	largest recommender.Size
	// boost of the CPU that is fitted; the zero value is none.
	boost boost
}

// fit returns the seed of one resource, fitted to a container that was created with was. Its result depends on
// nothing else, so the same pod gets the same answer however often it is reviewed. Where the seed cannot be
// applied, the container keeps what it was created with and the reason is not empty.
//
// The result always keeps these rules: a request is at most its limit; nothing that was set becomes unset; request
// and limit stay equal in a Guaranteed pod; where lowering is not allowed, neither falls below what it was; what moves is
// at least podview.RaiseToLeast. A memory limit that leaves no room for the container's memory-backed volumes is not
// lowered, with the reason MemoryVolume; the request may still move.
// Where the template asks for more than the seed was made for, its author just changed it, and the pod is not
// lowered. In a Guaranteed pod the resource moves only if request and limit both may move.
func (f *frame) fit(r recommender.Resource, c *ContainerSeed, was recommender.Allocation, volumes podview.MemoryVolumes) (recommender.Allocation, Reason) {
	s := &c.Of[r]
	switch {
	case s.request == 0:
		return f.raisedLimit(r, s, was), ""
	case s.request < was.Request && !c.made(r, was.Request):
		return was, TemplateChanged
	}
	bound := &f.bounds.Container[r]
	if bound.ViolatedBy(was) {
		return was, LimitRange // the pod will be refused as it is, and by another
	}
	if f.class == corev1.PodQOSGuaranteed && !s.bothMove {
		return was, FixedLimit
	}
	wanted, held := keepLimit(r, was, f.wanted(r, s, was), s.limitFloor, volumes)
	var fitted recommender.Allocation
	if f.class == corev1.PodQOSGuaranteed {
		fitted = bound.ClampEqual(r, wanted.Request, was.Request, granularity(r, was))
	} else {
		fitted = bound.Clamp(r, wanted, was)
	}
	if podview.RaiseToLeast(r, was, fitted) != fitted {
		return was, LimitRange // it allows no amount that a container can run with
	}
	return fitted, held
}

// keepLimit keeps the memory limit where it would fall and leave no room for the container's memory-backed volumes. What the
// container needs beside them is not known before it runs: the limit's floor stands for it, or the request where that is more.
func keepLimit(r recommender.Resource, was, wanted recommender.Allocation, floor recommender.Amount, volumes podview.MemoryVolumes) (recommender.Allocation, Reason) {
	m := resize.Move{}
	m.From[r], m.To[r] = was, wanted
	if !m.LowersMemoryLimit() || !volumes.Exceed(wanted.Limit, max(floor, wanted.Request)) {
		return wanted, ""
	}
	return resize.WithoutMemoryLimitDecrease(m)[r], MemoryVolume
}

// wanted is the seed before the bounds of the namespace are applied.
func (f *frame) wanted(r recommender.Resource, s *ask, was recommender.Allocation) (wanted recommender.Allocation) {
	wanted.Request = s.request
	if !s.mayLower {
		wanted.Request = max(wanted.Request, was.Request)
	}
	if r == recommender.CPU {
		wanted.Request = f.boost.of(wanted.Request)
	}
	switch f.class {
	case corev1.PodQOSBestEffort: // requests only: a limit is more than the pod's author ever accepted
		return podview.RaiseToLeast(r, was, wanted)
	case corev1.PodQOSGuaranteed:
		wanted.Request = max(wanted.Request, s.limitFloor)
		wanted.Limit = wanted.Request
		return podview.RaiseToLeast(r, was, wanted)
	}
	wanted.Limit = s.limitFor(r, was, wanted.Request)
	if !s.mayLower {
		wanted.Limit = max(wanted.Limit, was.Limit)
	}
	if wanted.Limit > 0 && wanted.Request > wanted.Limit {
		wanted.Request = r.WholeWithin(wanted.Limit, was.Request, wanted.Limit)
	}
	return podview.CapLimit(was, podview.RaiseToLeast(r, was, wanted), f.largest[r].Limit)
}

// raisedLimit raises a limit to its floor where the seed has no request: an OOM kill taught it, and the request is held. In
// a Guaranteed pod the request goes with it.
func (f *frame) raisedLimit(r recommender.Resource, s *ask, was recommender.Allocation) recommender.Allocation {
	bound := &f.bounds.Container[r]
	if !s.bothMove || was.Limit == 0 || s.limitFloor <= was.Limit || bound.ViolatedBy(was) {
		return was
	}
	raised := podview.CapLimit(was, recommender.Allocation{Request: was.Request, Limit: s.limitFloor}, f.largest[r].Limit)
	if f.class == corev1.PodQOSGuaranteed {
		return bound.ClampEqual(r, raised.Limit, was.Request, granularity(r, was))
	}
	return bound.Clamp(r, raised, was)
}

// limitFor is the limit that goes with a request; 0: none.
func (s *ask) limitFor(r recommender.Resource, was recommender.Allocation, request recommender.Amount) recommender.Amount {
	switch {
	case s.limit > 0:
		return max(s.limit, s.limitFloor, request)
	case s.limitFollows && was.Limit > 0 && was.Request > 0:
		limit := recommender.LimitFor(r, was, request, s.limitFloor)
		if r == recommender.Memory { // request and floor are within the ceiling already, the ratio is not
			limit = recommender.Brake(limit, max(recommender.MemoryCeiling(was, recommender.Floor{}, 0), s.limitFloor, request))
		}
		return limit
	default:
		return was.Limit
	}
}

// granularity is the unit in which a Guaranteed container's amount may change. Whole cores stay whole, since the
// static CPU manager gives exclusive cores only to containers that request whole ones.
func granularity(r recommender.Resource, was recommender.Allocation) recommender.Amount {
	const core = 1000
	if r == recommender.CPU && was.Request%core == 0 {
		return core
	}
	return 1
}

// boost is the additional CPU of a starting container. The zero value gives none.
type boost struct {
	// thousandths is the factor for the request, times 1000; 0: no boost.
	thousandths recommender.Amount
	// most is the greatest request that the boost makes, in millicores; 0: no bound.
	most recommender.Amount
}

// readBoost reads a seed's boost. A multiplier that cannot be read, raises nothing, or is above v1alpha1.MaxBoost
// counts as no boost.
func readBoost(b *v1alpha1.CPUBoost) boost {
	if b == nil {
		return boost{}
	}
	multiplier, err := strconv.ParseFloat(string(b.Multiplier), 64)
	if err != nil || !(multiplier > 1 && multiplier <= v1alpha1.MaxBoost) {
		return boost{}
	}
	return boost{thousandths: recommender.Amount(math.Round(multiplier * 1000)), most: amountAt(recommender.CPU, b.Most)}
}

// of returns the boosted request in millicores, never less than the request itself.
func (b boost) of(request recommender.Amount) recommender.Amount {
	if b.thousandths == 0 {
		return request
	}
	// Rounded up to a whole millicore.
	raised := (request*b.thousandths + 999) / 1000
	if b.most > 0 {
		raised = min(raised, b.most)
	}
	return max(request, raised)
}

// mayBoost reports whether the boost can be taken back without a restart. With resizePolicy RestartContainer for
// CPU: the boost is taken back -> the container restarts -> it needs the boost again.
func (u *unit) mayBoost() bool {
	for _, p := range u.ResizePolicy {
		if p.ResourceName == string(corev1.ResourceCPU) && p.RestartPolicy == string(corev1.RestartContainer) {
			return false
		}
	}
	return true
}

// boosted reports whether the container gets more CPU than it would have without its boost.
func (u *unit) boosted() bool {
	return u.boost && u.plain.Request > 0 && u.will[recommender.CPU].Request > u.plain.Request
}

// unboost takes the boosts of all containers back and reports whether there were any.
func unboost(units []unit) (any bool) {
	for i := range units {
		u := &units[i]
		if u.boosted() {
			u.will[recommender.CPU], any = u.plain, true
		}
		u.boost = false
	}
	return any
}
