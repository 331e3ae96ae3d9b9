package constraint

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Bounds combines the LimitRanges of a namespace: their constraints for each container and for a pod as a whole. The
// zero value has no constraint.
type Bounds struct {
	// Container applies to each container, Pod to the sums over a pod. Both are indexed by Resource.
	Container, Pod [2]Bound
}

// Bound is the constraint on the requests and limits of one resource, in whole amounts. A zero field is no constraint.
type Bound struct {
	// min and max apply to request and limit alike, in millicores or bytes, both inclusive; 0 if not set.
	min, max recommender.Amount
	// ratio is the largest limit / request; 0 if not set.
	ratio Ratio
	// defaulted: containers without a limit get one.
	defaulted bool
}

// NeedsLimit reports whether a container without a limit is rejected (max, maxLimitRequestRatio) or gets one
// (default): LimitRanger runs again after a webhook that changed the pod.
func (b *Bound) NeedsLimit() bool { return b.max > 0 || b.ratio > 0 || b.defaulted }

// BoundsOf combines LimitRanges into their strictest constraints: the largest minimum, the smallest maximum and the
// smallest ratio of each resource. Items of other types, such as PersistentVolumeClaim, are ignored.
func BoundsOf(ranges []*corev1.LimitRange) (b Bounds) {
	for _, one := range ranges {
		for i := range one.Spec.Limits {
			item := &one.Spec.Limits[i]
			switch item.Type {
			case corev1.LimitTypeContainer:
				tighten(&b.Container, item)
			case corev1.LimitTypePod:
				tighten(&b.Pod, item)
			}
		}
	}
	return b
}

// tighten adds one item of a LimitRange. It rounds a maximum down to a whole amount, but at least 1, because 0 means no
// maximum.
func tighten(of *[2]Bound, item *corev1.LimitRangeItem) {
	for _, r := range recommender.Resources {
		b := &of[r]
		b.min = max(b.min, podview.AmountIn(r, item.Min))
		if _, ok := item.Default[podview.NameOf(r)]; ok {
			b.defaulted = true
		}
		if most, ok := item.Max[podview.NameOf(r)]; ok && !most.IsZero() {
			b.max = least(b.max, max(1, podview.AtMost(r, most)))
		}
		if ratio, ok := item.MaxLimitRequestRatio[podview.NameOf(r)]; ok {
			b.ratio = Ratio(least(recommender.Amount(b.ratio), recommender.Amount(RatioOf(ratio))))
		}
	}
}

// least returns the smaller amount; 0 means no bound.
func least(a, b recommender.Amount) recommender.Amount {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// ViolatedBy reports whether the API server's LimitRanger would reject the allocation. A bound also requires that the
// amount is set: a minimum requires a request, a maximum a limit, and a ratio both.
func (b *Bound) ViolatedBy(a recommender.Allocation) bool {
	switch {
	case b.min > 0 && (a.Request < b.min || a.Limit > 0 && a.Limit < b.min):
		return true
	case b.max > 0 && (a.Limit == 0 || a.Limit > b.max || a.Request > b.max):
		return true
	default:
		return b.ratio > 0 && (a.Request == 0 || a.Limit == 0 || b.ratio.Exceeded(a.Request, a.Limit))
	}
}

// Clamp moves an allocation into the bound. It cuts limits to the maximum. If the ratio is too large, it raises the
// request and never lowers the limit. A moved amount becomes a whole amount, not below was, if the bound allows one.
// Clamp never removes a limit. The last loop terminates: each iteration raises the request by at least 1, and a request
// equal to the limit satisfies every ratio of a LimitRange (1 or more).
func (b *Bound) Clamp(r recommender.Resource, a, was recommender.Allocation) recommender.Allocation {
	if a.Limit == 0 {
		a.Request = b.wholly(r, a.Request, was.Request, b.max)
		return a
	}
	exact := recommender.Allocation{Request: b.between(a.Request), Limit: b.between(a.Limit)}
	a.Limit = b.wholly(r, a.Limit, max(was.Limit, was.Request), b.max)
	a.Request = b.wholly(r, a.Request, was.Request, a.Limit)
	if a.Request > a.Limit {
		a = exact // no whole amounts fit both
	}
	for b.ratio > 0 && b.ratio.Exceeded(a.Request, a.Limit) {
		a.Request = max(a.Request+1, ceilDiv(a.Limit*1000, recommender.Amount(b.ratio)))
		a.Request = r.WholeWithin(a.Request, a.Request, a.Limit)
	}
	return a
}

// wholly moves an amount into the bound, and makes a moved amount whole. The whole amount is at least least and at most
// most; 0 means no upper bound.
func (b *Bound) wholly(r recommender.Resource, a, least, most recommender.Amount) recommender.Amount {
	if moved := b.between(a); moved != a {
		return r.WholeWithin(moved, max(b.min, least), most)
	}
	return a
}

// ClampEqual returns the allocation of a Guaranteed container: limit and request are equal, and a multiple of step. An
// amount that the bound moves becomes a whole amount if the bound allows one, and not below was.
func (b *Bound) ClampEqual(r recommender.Resource, amount, was, step recommender.Amount) recommender.Allocation {
	amount = ceilDiv(b.wholly(r, amount, was, b.max), step) * step
	if b.max > 0 {
		amount = min(amount, b.max/step*step)
	}
	return recommender.Allocation{Request: amount, Limit: amount}
}

// between clamps an amount to min and max.
func (b *Bound) between(a recommender.Amount) recommender.Amount {
	a = max(a, b.min)
	if b.max > 0 {
		a = min(a, b.max)
	}
	return a
}

func ceilDiv(a, b recommender.Amount) recommender.Amount {
	return (a + b - 1) / b
}
