package podview

import (
	"slices"

	"attune.io/attune/recommender"
)

// The kernel and the runtime round amounts: CPU shares and quotas have a minimum (recommender.LeastCPURequest and
// LeastCPULimit), systemd rounds quotas up to 10m, and memory is counted in pages.
const (
	QuotaStep = recommender.Amount(10)
	Page      = recommender.Amount(4096)
)

// NearLimit reports whether the actual limit is the wished one after rounding by the machine. An absent limit (0) is
// near only another absent one.
func NearLimit(r recommender.Resource, actual, wished recommender.Amount) bool {
	difference := max(actual-wished, wished-actual)
	switch {
	case actual == wished:
		return true
	case actual == 0 || wished == 0:
		return false
	case r == recommender.Memory:
		return difference < Page
	}
	return actual >= wished && difference < QuotaStep || actual <= recommender.LeastCPULimit && wished <= recommender.LeastCPULimit
}

// NearRequest is NearLimit for requests. Shares are weights of 1/1024 core, so a reported CPU request may differ by one
// millicore.
func NearRequest(r recommender.Resource, actual, wished recommender.Amount) bool {
	if r == recommender.Memory {
		return NearLimit(r, actual, wished)
	}
	return max(actual-wished, wished-actual) <= 1 || actual <= recommender.LeastCPURequest && wished <= recommender.LeastCPURequest
}

// NearSize reports whether all four amounts of a reported size are near the wished ones.
func NearSize(actual, wished recommender.Size) bool {
	return !slices.ContainsFunc(recommender.Resources[:], func(r recommender.Resource) bool {
		return !NearLimit(r, actual[r].Limit, wished[r].Limit) || !NearRequest(r, actual[r].Request, wished[r].Request)
	})
}
