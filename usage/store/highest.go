package store

import (
	"math"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// Highest usage of a container, over its workload's replicas, in the steps that overlap the time after
// from, up to to; of CPU the peaks within the steps. False where nothing was measured. It costs one look
// for each step of that time.
func (s *Store) Highest(key Key, r recommender.Resource, from, to time.Time) (recommender.Usage, bool) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	pool, history := s.find(key)
	if history == nil {
		return 0, false
	}
	step := pool.settings.QueryStep
	first, last := usage.StepOf(from, step)+1, usage.StepHolding(to, step)
	if r == recommender.Memory {
		highest := history.memory.highest(first, last)
		return recommender.Usage(highest), highest >= 0
	}
	highest := max(history.cpu.highest(first, last), history.peak.highest(first, last))
	return recommender.Usage(highest * 1000), highest >= 0
}

// highest value of the steps from first to last, both included; below zero where there is none.
func (r *ring) highest(first, last int64) float64 {
	highest := -1.0
	for step := max(first, r.first); step <= min(last, r.last); step++ {
		if value := r.at(step); !math.IsNaN(value) {
			highest = max(highest, value)
		}
	}
	return highest
}
