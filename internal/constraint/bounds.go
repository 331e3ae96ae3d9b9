package constraint

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Bounds are what a namespace's LimitRanges demand of each container and of a pod as a whole, taken together, by Resource.
// The zero value demands nothing.
type Bounds struct {
	// Container holds for each container by itself, Pod for the sums over a pod. Both are indexed by Resource.
	Container, Pod [2]Bound
}

// Bound is what the requests and limits of one resource must keep, in whole amounts; zero fields demand nothing.
type Bound struct {
	// min and max bound request and limit alike, in millicores or bytes, both inclusive; 0: no bound.
	min, max recommender.Amount
	// ratio bounds limit / request; 0: no bound.
	ratio Ratio
}

// BoundsOf combines limit ranges into the strictest of their demands: the greatest minimum, the least maximum and
// the least ratio of each resource. Items of other kinds, such as PersistentVolumeClaim, are ignored.
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

// tighten adds one item of a LimitRange. A maximum is rounded down to a whole amount, but not to 0, which would
// mean that there is none.
func tighten(of *[2]Bound, item *corev1.LimitRangeItem) {
	for _, r := range recommender.Resources {
		b := &of[r]
		b.min = max(b.min, podview.AmountIn(r, item.Min))
		if most, ok := item.Max[podview.NameOf(r)]; ok && !most.IsZero() {
			b.max = least(b.max, max(1, podview.AtMost(r, most)))
		}
		if ratio, ok := item.MaxLimitRequestRatio[podview.NameOf(r)]; ok {
			b.ratio = Ratio(least(recommender.Amount(b.ratio), recommender.Amount(RatioOf(ratio))))
		}
	}
}

// least is the smaller of two amounts, where 0 means "no bound" and not "nothing".
func least(a, b recommender.Amount) recommender.Amount {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// ViolatedBy reports whether the API server's LimitRanger would refuse the allocation. A bound also demands that
// the amount is set: a minimum demands a request, a maximum demands a limit, and a ratio demands both.
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

// Clamp moves an allocation into the bound: limits are cut to it, and a request is raised rather than
// a limit lowered where their ratio is too great. What it moves becomes a whole amount where the bound allows
// one, not below was. It never removes a limit.
// The last loop terminates: each turn raises the request by at least 1, and a request equal to the limit exceeds
// no ratio that a LimitRange can have (1 or more).
func (b *Bound) Clamp(r recommender.Resource, a, was recommender.Allocation) recommender.Allocation {
	if a.Limit == 0 {
		a.Request = b.wholly(r, a.Request, was.Request, b.max)
		return a
	}
	exact := recommender.Allocation{Request: b.between(a.Request), Limit: b.between(a.Limit)}
	a.Limit = b.wholly(r, a.Limit, max(was.Limit, was.Request), b.max)
	a.Request = b.wholly(r, a.Request, was.Request, a.Limit)
	if a.Request > a.Limit {
		a = exact // no whole amounts fit beside each other
	}
	for b.ratio > 0 && b.ratio.Exceeded(a.Request, a.Limit) {
		a.Request = max(a.Request+1, ceilDiv(a.Limit*1000, recommender.Amount(b.ratio)))
		a.Request = r.WholeWithin(a.Request, a.Request, a.Limit)
	}
	return a
}

// wholly moves an amount into the bound, as a whole amount where it is moved; least is what it was, or must be, and
// most what the whole amount must not pass (0: nothing).
func (b *Bound) wholly(r recommender.Resource, a, least, most recommender.Amount) recommender.Amount {
	if moved := b.between(a); moved != a {
		return r.WholeWithin(moved, max(b.min, least), most)
	}
	return a
}

// ClampEqual is the allocation of a Guaranteed container: limit and request are one amount, a multiple
// of step, or a whole amount where the bound moves it and allows one; not below was.
func (b *Bound) ClampEqual(r recommender.Resource, amount, was, step recommender.Amount) recommender.Allocation {
	amount = ceilDiv(b.wholly(r, amount, was, b.max), step) * step
	if b.max > 0 {
		amount = min(amount, b.max/step*step)
	}
	return recommender.Allocation{Request: amount, Limit: amount}
}

// between moves an amount into min and max.
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
