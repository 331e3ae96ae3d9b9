package constraint

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// QuotaLeft is what one ResourceQuota leaves for new pods. Unlike QuotaRoom, it reads the spec as well as the status, of
// which the smaller amount holds, and takes scopes other than by class to cover every pod: a quota that does not count a
// pod then still holds it back from growing, never the other way round.
type QuotaLeft struct {
	of [2]struct{ request, limit allowance }
	// ByClass: the quota counts some classes of quality of service only.
	ByClass bool
}

// allowance of one counted amount.
type allowance struct {
	counted bool
	// left is 0 where it is not known.
	left recommender.Amount
}

// QuotaLeftOf reads a quota. Where a quota counts an amount under two names, the smaller rest holds.
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

// leftForNew is known only where the quota controller has counted what is used of it.
func (c Counted) leftForNew(q *corev1.ResourceQuota, name corev1.ResourceName) recommender.Amount {
	enforced, known := q.Status.Hard[name]
	_, used, counted := c.State(q, name)
	if !known || !counted {
		return 0
	}
	hard := min(podview.AtMost(c.Resource, q.Spec.Hard[name]), podview.AtMost(c.Resource, enforced))
	return max(0, hard-used)
}

// in is the allowance of a counted amount.
func (x *QuotaLeft) in(c Counted) *allowance {
	if c.Limits {
		return &x.of[c.Resource].limit
	}
	return &x.of[c.Resource].request
}

// admits reports whether a pod that grows from one effective allocation to another is known to fit.
// A pod that does not grow fits as it did.
func (a *allowance) admits(from, to recommender.Amount) bool {
	return !a.counted || to <= from || to <= a.left
}

// Admits reports whether a pod that grows from one effective allocation of a resource to another is known to fit.
func (x *QuotaLeft) Admits(r recommender.Resource, from, to recommender.Allocation) bool {
	return x.of[r].request.admits(from.Request, to.Request) && x.of[r].limit.admits(from.Limit, to.Limit)
}
