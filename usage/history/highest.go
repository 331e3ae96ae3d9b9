package history

import (
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// Highest usage of a container, over its workload's replicas, in the steps that overlap the time after
// from, up to to; of CPU the peaks within the steps. False where nothing was measured. Steps that are
// packed (codec.MaxError) and in the bucket of their day's highest are told as that one.
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
		highest := history.memory.max(first, last)
		return recommender.Usage(highest), highest >= 0
	}
	highest := history.maxCPU(first, last)
	return recommender.Usage(highest * 1000), highest >= 0
}
