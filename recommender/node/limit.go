package node

import "attune.io/attune/recommender"

// MemoryLimit is 2 × the greater of the most memory in 7 days and what OOM kills taught
// (recommender.OOMFloor, decayed), in whole MiB, never below the request. It is zero, which sets none, where neither is
// known: a limit that was guessed too low would kill containers.
func MemoryLimit(max7d, oom, request recommender.Amount) recommender.Amount {
	most := bounded(max(max7d, oom), recommender.MaxAmount)
	if most == 0 {
		return 0
	}
	return max(recommender.Memory.Whole(2*most), request)
}
