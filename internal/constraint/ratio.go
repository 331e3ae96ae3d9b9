// Package constraint has what LimitRanges and ResourceQuotas demand, as the API server computes it: once, for admission and for
// resizes. Admission reads them ahead of time, in whole amounts of CPU and memory (Bounds, QuotaLeft). A resize is
// checked as a whole, in exact quantities of any resource (ViolationOf, Covers, QuotaRoom). It makes no sentences: who refuses
// says why.
package constraint

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/recommender"
)

// Ratio is the most that a limit may be of its request, in thousandths.
type Ratio recommender.Amount

// RatioOf reads a LimitRange's maxLimitRequestRatio.
func RatioOf(most resource.Quantity) Ratio { return Ratio(most.MilliValue()) }

// Exceeded compares as the API server's LimitRanger does, in floating point, so that both see the same ratio
// (limitRequestRatioConstraint in plugin/pkg/admission/limitranger). The request is not 0.
func (r Ratio) Exceeded(request, limit recommender.Amount) bool {
	return float64(limit)/float64(request)*1000 > float64(r)
}

// LeastRequest is the least request for which a limit does not exceed the ratio.
func (r Ratio) LeastRequest(limit recommender.Amount) recommender.Amount {
	least := max(1, recommender.Amount(float64(limit)*1000/float64(r)))
	for r.Exceeded(least, limit) {
		least++
	}
	return least
}

// MostLimit is the greatest limit that does not exceed the ratio of a request.
func (r Ratio) MostLimit(request recommender.Amount) recommender.Amount {
	most := recommender.Amount(float64(request)*float64(r)/1000) + 1
	for most > 0 && r.Exceeded(request, most) {
		most--
	}
	return most
}

// ExceedsRatio is Exceeded for quantities of any resource. The request is not 0.
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
