package pod

import (
	"math/bits"

	"attune.io/attune/recommender"
)

// limitFor: until recommender.LimitFor is there.
func limitFor(r recommender.Resource, original recommender.Allocation, request, memoryLimitFloor recommender.Amount) recommender.Amount {
	hi, lo := bits.Mul64(uint64(request), uint64(original.Limit))
	q, rem := bits.Div64(hi, lo, uint64(original.Request))
	if rem > 0 {
		q++
	}
	limit := recommender.Amount(q)
	if r == recommender.Memory {
		limit = max(limit, memoryLimitFloor)
	}
	return limit
}
