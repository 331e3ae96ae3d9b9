package recommender

// limitHeadroom is the least quotient of a memory limit and the peak of the history.
const limitHeadroom = 1.1

// defaulted returns the allocation with its limit as the request where it has no request, as the API server does.
func (a Allocation) defaulted() Allocation {
	if a.Request == 0 {
		a.Request = a.Limit
	}
	return a
}

// pinned reports whether request and limit are equal. They then have to stay so, since the pod's class of quality
// of service may depend on it.
func (a Allocation) pinned() bool { return a.Limit > 0 && a.Request == a.Limit }

// LimitFor is the limit that goes with a request. It keeps the ratio of limit to request of the original
// resources, rounded down to a whole amount so that a LimitRange's maximal ratio is still kept, and is never below
// the request. The original is used and not the live allocation: a ratio that is read back drifts with every
// rounding. A memory limit is not below memoryLimitFloor (bytes) either; for CPU that argument is ignored. Without
// an original limit the result is 0, no limit.
func LimitFor(r Resource, original Allocation, request, memoryLimitFloor Amount) Amount {
	if original.Limit == 0 {
		return 0
	}
	limit := request
	if original = original.defaulted(); !original.pinned() {
		limit = max(request, r.above(request, request.times(original.Limit, original.Request)))
	}
	if r == Memory {
		limit = max(limit, r.Whole(memoryLimitFloor))
	}
	return limit
}

// above is a limit rounded down to a whole amount. Where that would make it equal to its request, which may be
// another quality-of-service class, memory is in whole KiB, however much it is.
func (r Resource) above(request, limit Amount) Amount {
	if whole := r.WholeDown(limit); whole > request || r == CPU {
		return whole
	}
	return limit - limit%kibibyte
}

// memoryLimitFloor is the greater of 1.1 times the peak of the window and the learned floor, as a whole amount; no
// memory limit may be below it.
func memoryLimitFloor(peak Usage, learned Amount) Amount {
	return Memory.Whole(max((peak * limitHeadroom).RoundUp(), learned))
}
