package podview

import "attune.io/attune/recommender"

// least are the smallest amounts with an effect of their own. Requests of 1m and 2m give the same CPU weight, and
// quotas below 10m the same as 10m (tolerance.go). With less memory than this a runtime cannot start a container, and a
// kubelet cannot write a pod's token: it sizes the volumes of tokens and Secrets by the pod's memory limit.
var least = recommender.Size{
	recommender.CPU:    {Request: LeastCPURequest, Limit: LeastCPULimit},
	recommender.Memory: {Request: 4 << 20, Limit: 16 << 20},
}

// RaiseToLeast returns to with each changed amount raised to the smallest size: requests of 2m and 4Mi, limits of 10m
// and 16Mi. If was is already below that, a decrease keeps was. If request and limit of to are equal, they stay equal.
// A request above its limit is cut to the limit. Absent amounts (0) stay absent. Created and running pods share this
// rule.
func RaiseToLeast(r recommender.Resource, was, to recommender.Allocation) recommender.Allocation {
	together := to.Request == to.Limit
	to.Limit = raiseToLeast(was.Limit, to.Limit, least[r].Limit)
	to.Request = raiseToLeast(was.Request, to.Request, least[r].Request)
	if to.Limit > 0 && (together || to.Request > to.Limit) {
		to.Request = to.Limit
	}
	return to
}

func raiseToLeast(was, to, least recommender.Amount) recommender.Amount {
	switch {
	case to == was || to == 0:
		return to
	case to < was && was < least:
		return was
	default:
		return max(to, least)
	}
}

// CapLimit returns to with its limit lowered to most, the capacity of the largest node (0: not known): a higher limit
// protects nothing. The limit never falls below the limit of was or the request of to. Created and running pods share
// this rule.
func CapLimit(was, to recommender.Allocation, most recommender.Amount) recommender.Allocation {
	if most > 0 {
		to.Limit = min(to.Limit, max(most, was.Limit, to.Request))
	}
	return to
}
