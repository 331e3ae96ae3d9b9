package pod

import (
	"cmp"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// frame holds the conditions that apply to all containers of a pod.
type frame struct {
	// class is the class of the pod as it was created; bounds are the limits of its namespace.
	class  corev1.PodQOSClass
	bounds *constraint.Bounds
	// limitKept is why no CPU limit is removed from the pod; empty: nothing prevents that.
	limitKept string
	// largest is the most that the pod may request (requests), and the most that limits are raised to (limits); 0:
	// not known.
	largest recommender.Size
	// sandboxed: the pod's runtime class has a memory overhead. Its runtime is a VM, which may not start with a lower
	// memory limit, whatever the container uses.
	sandboxed bool
	// boost of the CPU; the zero value is none.
	boost boost
}

// fit returns the seed of one resource, fitted to a container that was created with was. The result depends on
// nothing but the arguments, so each review of a pod has the same result. If the seed cannot be applied, the
// container keeps the size that it was created with, and the reason is not empty.
//
// The result always keeps these rules: a request is at most its limit; no value that was set becomes unset, except a CPU
// limit that the policy removes (removes); request and limit stay equal in a Guaranteed pod; if lowering is not allowed, neither falls below was; a changed amount is
// at least recommender.RaiseToLeast. A part of the change that resize.AllowedBySpec refuses is left out, with its reason.
// If the template requests more than the seed was computed for, its author just changed it, and the pod is not lowered. In a Guaranteed pod the resource changes
// only if request and limit may both change.
func (f *frame) fit(r recommender.Resource, c *ContainerSeed, was recommender.Allocation, facts *resize.SpecFacts) (recommender.Allocation, Reason) {
	s := &c.Of[r]
	if f.sandboxed && r == recommender.Memory {
		kept := *s
		kept.limitFloor = max(kept.limitFloor, was.Limit)
		s = &kept
	}
	switch {
	case s.request == 0:
		return allowed(facts, r, was, f.raisedLimit(r, s, was))
	case s.request < was.Request && !c.made(r, was.Request):
		return was, TemplateChanged
	}
	bound := &f.bounds.Container[r]
	if bound.ViolatedBy(was) {
		return was, LimitRange // the API server will reject the pod anyway, for its own amounts
	}
	if f.class == corev1.PodQOSGuaranteed && !s.bothMove {
		return was, FixedLimit
	}
	wanted := f.wanted(r, s, was)
	// The container's need in addition to its volumes is not known before it runs: it counts as the limit's floor, or the
	// request if that is more.
	facts.Held = max(s.limitFloor, wanted.Request)
	wanted, held := allowed(facts, r, was, wanted)
	var fitted recommender.Allocation
	if f.class == corev1.PodQOSGuaranteed {
		fitted = bound.ClampEqual(r, wanted.Request, was.Request, granularity(r, was))
	} else {
		fitted = bound.Clamp(r, wanted, was)
	}
	switch left, _ := allowed(facts, r, was, fitted); {
	case r.RaiseToLeast(was, fitted) != fitted:
		return was, LimitRange // it allows no amount that a container can run with
	case left != fitted:
		return was, held // LimitRange allows no part of the change
	case fitted.Request != was.Request && !s.kept.Contains(fitted.Request):
		return was, HPA
	}
	return fitted, held
}

// allowed returns the part of a change that the rules for created and running pods allow.
func allowed(facts *resize.SpecFacts, r recommender.Resource, was, wanted recommender.Allocation) (recommender.Allocation, Reason) {
	left, refusal := resize.AllowedBySpec(facts, r, was, wanted)
	if refusal == nil {
		return left, ""
	}
	return left, Reason(refusal.Reason)
}

// wanted is the seed before the limits of the namespace are applied.
func (f *frame) wanted(r recommender.Resource, s *ask, was recommender.Allocation) (wanted recommender.Allocation) {
	wanted.Request = s.request
	if !s.mayLower {
		wanted.Request = max(wanted.Request, was.Request)
	}
	if r == recommender.CPU {
		wanted.Request = f.boostFor(s, was).of(wanted.Request)
	}
	switch f.class {
	case corev1.PodQOSBestEffort: // requests only: the pod's author never accepted a limit
		return r.RaiseToLeast(was, wanted)
	case corev1.PodQOSGuaranteed:
		if r == recommender.Memory {
			wanted.Request = max(wanted.Request, s.limitFloor)
		}
		wanted.Limit = wanted.Request
		return r.RaiseToLeast(was, wanted)
	}
	if f.removes(s, was) {
		return r.RaiseToLeast(was, recommender.Allocation{Request: wanted.Request})
	}
	wanted.Limit = s.limitFor(r, was, wanted.Request)
	if !s.mayLower {
		wanted.Limit = max(wanted.Limit, was.Limit)
	}
	if wanted.Limit > 0 && wanted.Request > wanted.Limit {
		wanted.Request = r.WholeWithin(wanted.Limit, was.Request, wanted.Limit)
	}
	return r.CapLimit(was, r.RaiseToLeast(was, wanted), f.limitMost(r, s))
}

// boostFor returns the boost of a container, which raises no CPU limit above the maximum of the policy's rule.
func (f *frame) boostFor(s *ask, was recommender.Allocation) boost {
	b := f.boost
	if f.class == corev1.PodQOSBurstable {
		bound := s.rule.MostRequest(was)
		b.most = recommender.Brake(cmp.Or(b.most, bound), bound)
	}
	return b
}

// removes reports whether the limit of a container is removed: it has one, and nothing needs it.
func (f *frame) removes(s *ask, was recommender.Allocation) bool {
	return s.rule.Remove && was.Limit > 0 && f.class == corev1.PodQOSBurstable && f.limitKept == ""
}

// reportLimit adds why a CPU limit that the policy removes stays.
func (f *frame) reportLimit(u *unit, s *ask, d *Decision) {
	if why := f.limitKept; s.rule.Remove && s.request > 0 && u.was[recommender.CPU].Limit > 0 && !f.removes(s, u.was[recommender.CPU]) {
		if why == "" {
			why = constraint.GuaranteedNeedsLimit
		}
		d.Blocked = append(d.Blocked, Blocked{Container: u.Name, Resource: recommender.CPU, Reason: CPULimitNeeded, Message: "the CPU limit stays: " + why})
	}
}

// limitKept returns why the CPU limits of a pod cannot be removed; empty: nothing prevents that.
func (ns *Namespace) limitKept(sandboxed bool) string {
	if why := constraint.CPULimitNeeded(&ns.Bounds, ns.Quotas); why != "" || !sandboxed {
		return why
	}
	return constraint.SandboxNeedsLimit
}

// limitMost is the amount above which no limit is raised; 0: no bound. It may be maxAllowed, above which the floor of a
// memory limit takes precedence, up to what the largest node has. The floor of a CPU limit is for decreases.
func (f *frame) limitMost(r recommender.Resource, s *ask) recommender.Amount {
	most := recommender.Brake(cmp.Or(f.largest[r].Limit, s.limitMost), s.limitMost)
	if most == 0 || r == recommender.CPU {
		return most
	}
	return max(most, recommender.Brake(s.limitFloor, f.largest[r].Request))
}

// raisedLimit raises a limit to its floor if the seed has no request: the floor comes from an OOM kill, and the
// request is blocked. In a Guaranteed pod the request follows the limit.
func (f *frame) raisedLimit(r recommender.Resource, s *ask, was recommender.Allocation) recommender.Allocation {
	bound := &f.bounds.Container[r]
	if r == recommender.CPU || !s.bothMove || was.Limit == 0 || s.limitFloor <= was.Limit || bound.ViolatedBy(was) {
		return was
	}
	raised := r.CapLimit(was, recommender.Allocation{Request: was.Request, Limit: s.limitFloor}, f.limitMost(r, s))
	if f.class == corev1.PodQOSGuaranteed {
		return bound.ClampEqual(r, raised.Limit, was.Request, granularity(r, was))
	}
	return bound.Clamp(r, raised, was)
}

// limitFor is the limit for a request; 0: none. A limit that usage follows replaces the ratio, but lowers none: the
// template's may have been raised since the seed was computed.
func (s *ask) limitFor(r recommender.Resource, was recommender.Allocation, request recommender.Amount) recommender.Amount {
	switch {
	case s.limit > 0 && !s.limitFollows: // strategy Node
		return max(s.limit, s.limitFloor, request)
	case s.limit > 0 && was.Limit > 0:
		return max(s.limit, s.limitFloor, request, was.Limit)
	case s.rule.Sets() && was.Limit > 0:
		return s.rule.Limit(was, was.Limit, request, s.limitFloor)
	case s.limitFollows && was.Limit > 0 && was.Request > 0:
		limit := recommender.LimitFor(r, was, request, s.limitFloor)
		if r == recommender.Memory { // request and floor are already within the ceiling, the ratio is not
			limit = recommender.Brake(limit, max(recommender.MemoryCeiling(was, recommender.Floor{}, 0), s.limitFloor, request))
		}
		return limit
	default:
		return was.Limit
	}
}

// granularity is the unit in which a Guaranteed container's amount may change. Whole cores stay whole, because the
// static CPU manager gives exclusive cores only to containers that request whole ones.
func granularity(r recommender.Resource, was recommender.Allocation) recommender.Amount {
	const core = 1000
	if r == recommender.CPU && was.Request%core == 0 {
		return core
	}
	return 1
}

// boost is the additional CPU of a starting container. The zero value is none.
type boost struct {
	// thousandths is the factor for the request, times 1000; 0: no boost.
	thousandths recommender.Amount
	// most is the highest request that the boost may set, in millicores; 0: no limit.
	most recommender.Amount
}

// readBoost reads a seed's boost. A multiplier that cannot be parsed, raises nothing, or is above v1alpha1.MaxBoost
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

// mayBoost reports whether the boost can end without a restart. With resizePolicy RestartContainer for CPU, the end
// of the boost restarts the container, which then needs the boost again.
func (u *unit) mayBoost() bool {
	for _, p := range u.ResizePolicy {
		if p.ResourceName == string(corev1.ResourceCPU) && p.RestartPolicy == string(corev1.RestartContainer) {
			return false
		}
	}
	return true
}

// boosted reports whether the container gets more CPU than without its boost.
func (u *unit) boosted() bool {
	return u.boost && u.plain.Request > 0 && u.will[recommender.CPU].Request > u.plain.Request
}

// unboost removes the boosts of all containers and reports whether there were any.
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
