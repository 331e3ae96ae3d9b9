package resize

import (
	"attune.io/attune/recommender"

	"attune.io/attune/podview"
)

// What a refused rule leaves of a move: each function gives the sizes that may still be asked for.

func unmoved(m Move) recommender.Size { return m.From }

func withoutCPU(m Move) recommender.Size {
	m.To[recommender.CPU] = m.From[recommender.CPU]
	return m.To
}

func withoutMemory(m Move) recommender.Size {
	m.To[recommender.Memory] = m.From[recommender.Memory]
	return m.To
}

// withoutMemoryRequest keeps the request under a limit that still moves.
func withoutMemoryRequest(m Move) recommender.Size {
	to := &m.To[recommender.Memory]
	to.Request = m.From[recommender.Memory].Request
	if to.Limit > 0 && to.Limit < to.Request {
		to.Limit = m.From[recommender.Memory].Limit
	}
	return m.To
}

// withoutDecreases keeps every amount at least at what it is. A limit that would be added stays away.
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

// withoutIncreases keeps every amount at most at what it is.
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

// withoutMemoryLimitDecrease keeps the limit; the request may still be lowered, which is where the
// saving is, unless the two are equal: then they stay so, since the pod may be Guaranteed.
func withoutMemoryLimitDecrease(m Move) recommender.Size {
	from, to := m.From[recommender.Memory], &m.To[recommender.Memory]
	if !lowersMemoryLimit(m) {
		return m.To
	}
	to.Limit = from.Limit
	if from.Limit > 0 && from.Request == from.Limit {
		to.Request = from.Request
	}
	return m.To
}

// Least amounts that a kernel keeps apart and a runtime can start a container with. A request of 1m and
// one of 2m are the same CPU weight, a quota below 10m the same as one of 10m.
var least = recommender.Size{
	recommender.CPU:    {Request: podview.LeastCPURequest, Limit: podview.LeastCPULimit},
	recommender.Memory: {Request: 4 << 20, Limit: 16 << 20},
}

// meaningful quietly raises amounts that change to the least that means anything, and keeps requests under
// their limits.
func meaningful(from, to recommender.Size) recommender.Size {
	for _, r := range recommender.Resources {
		together := to[r].Request == to[r].Limit
		if to[r].Limit != from[r].Limit && to[r].Limit > 0 {
			to[r].Limit = max(to[r].Limit, least[r].Limit)
		}
		if to[r].Request != from[r].Request {
			to[r].Request = max(to[r].Request, least[r].Request)
		}
		if to[r].Limit > 0 && (together || to[r].Request > to[r].Limit) {
			to[r].Request = to[r].Limit
		}
	}
	return to
}
