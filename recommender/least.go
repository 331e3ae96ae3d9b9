package recommender

// The smallest CPU amounts with an effect of their own, in millicores. Requests of 1m and 2m give the same CPU weight,
// and quotas below 10m the same as 10m.
const (
	LeastCPURequest Amount = 2
	LeastCPULimit   Amount = 10
)

// least are the smallest sizes. With less memory than this a runtime cannot start a container, and a kubelet cannot
// write a pod's token: it sizes the volumes of tokens and Secrets by the pod's memory limit.
var least = Size{
	CPU:    {Request: LeastCPURequest, Limit: LeastCPULimit},
	Memory: {Request: 4 * mebibyte, Limit: 16 * mebibyte},
}

// RaiseToLeast returns to with each changed amount raised to the smallest size: requests of 2m and 4Mi, limits of 10m
// and 16Mi. If was is already below that, a decrease keeps was. If request and limit of to are equal, they stay equal.
// A request above its limit is cut to the limit. Absent amounts (0) stay absent. Targets, created and running pods
// share this rule.
func (r Resource) RaiseToLeast(was, to Allocation) Allocation {
	together := to.Request == to.Limit
	to.Limit = raiseToLeast(was.Limit, to.Limit, least[r].Limit)
	to.Request = raiseToLeast(was.Request, to.Request, least[r].Request)
	if to.Limit > 0 && (together || to.Request > to.Limit) {
		to.Request = to.Limit
	}
	return to
}

func raiseToLeast(was, to, least Amount) Amount {
	switch {
	case to == was || to == 0:
		return to
	case to < was && was < least:
		return was
	default:
		return max(to, least)
	}
}

// CapLimit returns to with its limit lowered to most, such as maxAllowed or the size of the largest node (0: no bound),
// as a whole amount. The limit never falls below the limit of was or the request of to. A limit that was above its
// request stays above it, because the pod's QoS class may depend on it. Targets, created and running pods share this
// rule.
func (r Resource) CapLimit(was, to Allocation, most Amount) Allocation {
	if most == 0 {
		return to
	}
	lowest := to.Request
	if !was.pinned() && to.Limit > to.Request {
		lowest = r.Whole(lowest + 1)
	}
	to.Limit = min(to.Limit, max(r.WholeDown(most), was.Limit, lowest))
	return to
}

// limitMost is the amount above which maxAllowed lets no limit be raised, unless a higher one was learned; 0: no bound.
func (s *ResourceSettings) limitMost(learned Amount) Amount {
	if s.MaxAllowed == 0 {
		return 0
	}
	return max(s.MaxAllowed, learned)
}

// RaisedWithin is the part of a memory limit's floor to which a limit is raised: what was learned from OOM kills, and what usage
// needs as far as the original limit or maxAllowed.
func (s *ResourceSettings) RaisedWithin(floor, learned Amount, original Allocation) Amount {
	if s.MaxAllowed == 0 {
		return floor
	}
	return min(floor, max(original.Limit, Memory.WholeDown(s.MaxAllowed), Memory.Whole(learned)))
}
