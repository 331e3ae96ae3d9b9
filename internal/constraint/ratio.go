// Package constraint knows what LimitRanges and ResourceQuotas demand, as the API server computes it. Admission
// and resizes share it, so that both apply one rule.
//
// There are two ways in:
//   - Admission (webhook/pod) sizes a pod before it exists. It works in whole amounts of CPU and memory: Bounds
//     are the LimitRanges of a namespace in one value, QuotaLeft is the rest of one ResourceQuota.
//   - A resize (package resize) changes a pod that exists. It is checked as a whole and in exact quantities of any
//     resource: ViolationOf checks a LimitRange, Covers and QuotaRoom check quotas.
//
// The package writes no messages for users: the caller that refuses a change explains it. It reads no cluster and
// changes no object but lists that are passed to AddMissing. Start reading in bounds.go (admission), then
// namespace.go (resizes).
package constraint

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/recommender"
)

// Ratio is the greatest quotient of limit and request that a LimitRange allows, in thousandths: 2000 means that
// the limit may be twice the request. Zero means that no ratio is set.
type Ratio recommender.Amount

// RatioOf reads a LimitRange's maxLimitRequestRatio.
func RatioOf(most resource.Quantity) Ratio { return Ratio(most.MilliValue()) }

// Exceeded reports whether limit / request is above the ratio. It compares in floating point, as the API server's
// LimitRanger does (limitRequestRatioConstraint in plugin/pkg/admission/limitranger), so that both round in the
// same way. The request must not be 0.
func (r Ratio) Exceeded(request, limit recommender.Amount) bool {
	return float64(limit)/float64(request)*1000 > float64(r)
}

// LeastRequest is the least request for which a limit does not exceed the ratio.
// The estimate is corrected upwards with Exceeded itself: a rounded division alone could return a request that the
// API server refuses.
func (r Ratio) LeastRequest(limit recommender.Amount) recommender.Amount {
	least := max(1, recommender.Amount(float64(limit)*1000/float64(r)))
	for r.Exceeded(least, limit) {
		least++
	}
	return least
}

// MostLimit is the greatest limit that does not exceed the ratio of a request.
// The estimate is one too high on purpose and is corrected downwards with Exceeded. It returns 0 where no limit
// fits.
func (r Ratio) MostLimit(request recommender.Amount) recommender.Amount {
	most := recommender.Amount(float64(request)*float64(r)/1000) + 1
	for most > 0 && r.Exceeded(request, most) {
		most--
	}
	return most
}

// ExceedsRatio is Exceeded for quantities of any resource, such as ephemeral storage. Like LimitRanger, it
// compares thousandths as long as all three values are small enough for that (resource.MaxMilliValue), else whole
// units. The request must not be 0.
func ExceedsRatio(request, limit, most resource.Quantity) bool {
	asked, given, enforced := request.Value(), limit.Value(), most.Value()
	if asked <= resource.MaxMilliValue && given <= resource.MaxMilliValue && enforced <= resource.MaxMilliValue {
		asked, given = request.MilliValue(), limit.MilliValue()
	}
	ratio, bound := float64(given)/float64(asked), float64(enforced)
	if enforced <= resource.MaxMilliValue {
		ratio, bound = ratio*1000, float64(most.MilliValue())
	}
	return ratio > bound
}
