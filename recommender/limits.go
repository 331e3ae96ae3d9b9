package recommender

// limitHeadroom is how far above its peak a memory limit stays at least.
const limitHeadroom = 1.1

// defaulted: a limit without a request is the request too, as Kubernetes has it.
func (a Allocation) defaulted() Allocation {
	if a.Request == 0 {
		a.Request = a.Limit
	}
	return a
}

// pinned: request and limit are equal and have to stay so, as the pod's quality-of-service class may
// depend on it.
func (a Allocation) pinned() bool { return a.Limit > 0 && a.Request == a.Limit }

// LimitFor is the limit that goes with a request: it keeps the limit-to-request ratio of the original
// resources, rounded down to a whole amount so that a LimitRange's maximal ratio is still kept, and it is never
// below the request. The original, not the live allocation: a ratio that is read back drifts with every rounding.
// A memory limit is not below memoryLimitFloor either; for CPU that argument has no meaning.
// Without an original limit there is none (0).
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

// memoryLimitFloor is what no memory limit may be below: 1.1 times the peak of the window, and the
// learned floor, as a whole amount.
func memoryLimitFloor(peak Usage, learned Amount) Amount {
	return Memory.Whole(max((peak * limitHeadroom).RoundUp(), learned))
}
