package resize

import (
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Each function returns the sizes that a refused rule still allows for a move.

// newAmounts returns the amounts of a move that differ from the current ones. All others are 0, and so is an amount
// that would be removed: a resize cannot remove a request or a limit.
func (m Move) newAmounts() recommender.Size {
	return podview.Combine(m.From, m.To, func(from, to recommender.Amount) recommender.Amount {
		if from == to {
			return 0
		}
		return to
	})
}

// unmoved leaves the container unchanged.
func unmoved(m Move) recommender.Size { return m.From }

// withoutCPU leaves the CPU unchanged.
func withoutCPU(m Move) recommender.Size {
	m.To[recommender.CPU] = m.From[recommender.CPU]
	return m.To
}

func WithoutMemory(m Move) recommender.Size {
	m.To[recommender.Memory] = m.From[recommender.Memory]
	return m.To
}

// withoutMemoryRequest leaves the memory request unchanged; the limit may still change, but not below that request.
func withoutMemoryRequest(m Move) recommender.Size {
	to := &m.To[recommender.Memory]
	to.Request = m.From[recommender.Memory].Request
	if to.Limit > 0 && to.Limit < to.Request {
		to.Limit = m.From[recommender.Memory].Limit
	}
	return m.To
}

// withoutDecreases lowers no amount. It drops a new limit, since a new limit can only restrict.
func withoutDecreases(m Move) recommender.Size {
	for _, r := range recommender.Resources {
		from, to := m.From[r], &m.To[r]
		to.Request = max(to.Request, from.Request)
		if from.Limit == 0 {
			to.Limit = 0
		}
		to.Limit = max(to.Limit, from.Limit)
	}
	return m.To
}

// withoutIncreases raises no amount; it keeps a new limit.
func withoutIncreases(m Move) recommender.Size {
	for _, r := range recommender.Resources {
		from, to := m.From[r], &m.To[r]
		to.Request = min(to.Request, from.Request)
		if from.Limit > 0 {
			to.Limit = min(to.Limit, from.Limit)
		}
	}
	return m.To
}

// WithoutMemoryLimitDecrease keeps the memory limit if it would fall. The request may still fall, which is the saving,
// unless request and limit are equal: then both stay, because the pod may be Guaranteed.
func WithoutMemoryLimitDecrease(m Move) recommender.Size {
	from, to := m.From[recommender.Memory], &m.To[recommender.Memory]
	if !m.LowersMemoryLimit() {
		return m.To
	}
	to.Limit = from.Limit
	if from.Limit > 0 && from.Request == from.Limit {
		to.Request = from.Request
	}
	return m.To
}

// meaningful raises changed amounts to the least sizes, keeps requests at or below their limits, and raises no limit
// above the node's capacity. It adds nothing to LeftOut.
func meaningful(from, to recommender.Size, node [2]recommender.Amount) recommender.Size {
	for _, r := range recommender.Resources {
		to[r] = r.CapLimit(from[r], r.RaiseToLeast(from[r], to[r]), node[r])
	}
	return to
}

// exact keeps the sizes that a container had, even below the least sizes. Only a request above its limit is cut to the
// limit: a limit that was added since cannot be removed by a resize.
func exact(_, to recommender.Size, _ [2]recommender.Amount) recommender.Size {
	for _, r := range recommender.Resources {
		if to[r].Limit > 0 {
			to[r].Request = min(to[r].Request, to[r].Limit)
		}
	}
	return to
}
