package constraint

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// QuotaLeft is what one ResourceQuota leaves for new pods. The zero value counts nothing and admits everything.
//
// It is more cautious than QuotaRoom in two ways. It reads both the spec and the status of the quota and takes the
// smaller amount, because the status follows a change of the spec later. And it treats scopes other than classes
// of quality of service as covering every pod: a quota that does not count a pod then still keeps that pod from
// growing, never the other way round.
type QuotaLeft struct {
	of [2]struct{ request, limit allowance }
	// ByClass is true where the quota counts only some classes of quality of service (scopes BestEffort and
	// NotBestEffort). The caller then has to keep the class of the pod.
	ByClass bool
}

// allowance is what a quota says about one amount. An amount that is not counted is not bounded.
type allowance struct {
	counted bool
	// left is what new pods may still use, in millicores or bytes; 0 also where it is not known.
	left recommender.Amount
}

// QuotaLeftOf reads a quota. A quota can count one amount under two names (cpu and requests.cpu); then the smaller
// rest applies.
func QuotaLeftOf(q *corev1.ResourceQuota) (left QuotaLeft) {
	for name := range q.Spec.Hard {
		c, counted := CountedBy(name)
		if !counted {
			continue
		}
		a, rest := left.in(c), c.leftForNew(q, name)
		if a.counted {
			rest = min(rest, a.left)
		}
		*a = allowance{counted: true, left: rest}
	}
	for _, scope := range scopesOf(q) {
		left.ByClass = left.ByClass || byClass(scope.ScopeName)
	}
	return left
}

// leftForNew is the rest for one name of a quota. It is 0 until the quota controller has written both the hard
// amount and the use into the status: a quota that was just created admits no growth until then.
func (c Counted) leftForNew(q *corev1.ResourceQuota, name corev1.ResourceName) recommender.Amount {
	enforced, known := q.Status.Hard[name]
	_, used, counted := c.State(q, name)
	if !known || !counted {
		return 0
	}
	hard := min(podview.AtMost(c.Resource, q.Spec.Hard[name]), podview.AtMost(c.Resource, enforced))
	return max(0, hard-used)
}

// in returns the allowance of a counted amount, to read or to write it.
func (x *QuotaLeft) in(c Counted) *allowance {
	if c.Limits {
		return &x.of[c.Resource].limit
	}
	return &x.of[c.Resource].request
}

// admits reports whether a pod whose effective amount grows from one value to another is known to fit. A pod that
// does not grow always fits: without attune it would have been created with the same amount.
func (a *allowance) admits(from, to recommender.Amount) bool {
	return !a.counted || to <= from || to <= a.left
}

// Admits reports whether a pod that grows from one effective allocation of a resource to another is known to fit.
func (x *QuotaLeft) Admits(r recommender.Resource, from, to recommender.Allocation) bool {
	return x.of[r].request.admits(from.Request, to.Request) && x.of[r].limit.admits(from.Limit, to.Limit)
}
