package resize

import "attune.io/attune/recommender"

// value is one of the four amounts a container has.
type value uint8

const (
	cpuRequest value = iota
	cpuLimit
	memoryRequest
	memoryLimit
)

func limitOf(r recommender.Resource) value {
	if r == recommender.Memory {
		return memoryLimit
	}
	return cpuLimit
}

// Kernel and runtime round what a kubelet asks of them: CPU shares have a minimum worth 2m and quotas
// one worth 10m, systemd rounds quotas up to 10m, memory is counted in pages.
const (
	leastCPURequest = recommender.Amount(2)
	leastCPULimit   = recommender.Amount(10)
	quotaStep       = recommender.Amount(10)
	page            = recommender.Amount(4096)
)

// near: an actual amount is what the wished one looks like once the machine has rounded it.
func near(v value, actual, wished recommender.Amount) bool {
	if actual == wished {
		return true
	}
	difference := actual - wished
	if difference < 0 {
		difference = -difference
	}
	switch v {
	case cpuRequest:
		// Shares are weights of 1/1024 core, so a request read back may be off by one millicore.
		return difference <= 1 || actual <= leastCPURequest && wished <= leastCPURequest
	case cpuLimit:
		if actual == 0 || wished == 0 {
			return false
		}
		return actual >= wished && difference < quotaStep || actual <= leastCPULimit && wished <= leastCPULimit
	default:
		return actual != 0 && wished != 0 && difference < page
	}
}

// nearSize: a reported size is what the wished one looks like. What is reported as absent was not read.
func nearSize(actual, wished recommender.Size) bool {
	return near(cpuLimit, actual[recommender.CPU].Limit, wished[recommender.CPU].Limit) &&
		near(memoryLimit, actual[recommender.Memory].Limit, wished[recommender.Memory].Limit) &&
		near(cpuRequest, actual[recommender.CPU].Request, wished[recommender.CPU].Request) &&
		near(memoryRequest, actual[recommender.Memory].Request, wished[recommender.Memory].Request)
}
