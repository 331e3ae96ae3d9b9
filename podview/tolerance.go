package podview

import "attune.io/attune/recommender"

// Value is one of the four amounts a container has.
type Value uint8

const (
	CPURequest Value = iota
	CPULimit
	MemoryRequest
	MemoryLimit
)

// LimitOf is the limit of a resource, as a Value.
func LimitOf(r recommender.Resource) Value {
	if r == recommender.Memory {
		return MemoryLimit
	}
	return CPULimit
}

// Kernel and runtime round what a kubelet asks of them: CPU shares have a minimum worth 2m and quotas
// one worth 10m, systemd rounds quotas up to 10m, memory is counted in pages.
const (
	LeastCPURequest = recommender.Amount(2)
	LeastCPULimit   = recommender.Amount(10)
	QuotaStep       = recommender.Amount(10)
	Page            = recommender.Amount(4096)
)

// Near reports whether an actual amount is what the wished one becomes when the machine rounds it. An absent limit
// (0) is near no other.
func Near(v Value, actual, wished recommender.Amount) bool {
	if actual == wished {
		return true
	}
	difference := max(actual-wished, wished-actual)
	switch v {
	case CPURequest:
		// Shares are weights of 1/1024 core, so a request read back may be off by one millicore.
		return difference <= 1 || actual <= LeastCPURequest && wished <= LeastCPURequest
	case CPULimit:
		if actual == 0 || wished == 0 {
			return false
		}
		return actual >= wished && difference < QuotaStep || actual <= LeastCPULimit && wished <= LeastCPULimit
	default:
		return actual != 0 && wished != 0 && difference < Page
	}
}

// NearSize reports whether all four amounts of a reported size are near the wished ones.
func NearSize(actual, wished recommender.Size) bool {
	return Near(CPULimit, actual[recommender.CPU].Limit, wished[recommender.CPU].Limit) &&
		Near(MemoryLimit, actual[recommender.Memory].Limit, wished[recommender.Memory].Limit) &&
		Near(CPURequest, actual[recommender.CPU].Request, wished[recommender.CPU].Request) &&
		Near(MemoryRequest, actual[recommender.Memory].Request, wished[recommender.Memory].Request)
}
