package history

import (
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// AsStored returns steps of usage as Store.Steps tells them, oldest first: at the ends of whole steps, and off by
// codec.MaxError at most where a Store packs them. What is computed from a file is then equal to what an operator computes
// from the same usage, to the digit. Steps are oldest first; of two within one whole step the higher values count.
func AsStored(steps []recommender.StepUsage, step time.Duration) []recommender.StepUsage {
	if len(steps) == 0 {
		return nil
	}
	first, last := usage.StepHolding(steps[0].At, step), usage.StepHolding(steps[len(steps)-1].At, step)
	h := newHistory(newBudget(DefaultMaxBytes).join(""))
	h.slide(first, last)
	write := func(s *series, of func(recommender.StepUsage) float64) {
		values := gaps(last - first + 1)
		for _, u := range steps {
			at := usage.StepHolding(u.At, step) - first
			values[at] = recommender.Highest(values[at], of(u))
		}
		s.open(first)
		for i, v := range values {
			s.put(first+int64(i), v)
		}
		s.close()
	}
	write(&h.cpu, func(u recommender.StepUsage) float64 { return u.CPUCores })
	write(&h.memory, func(u recommender.StepUsage) float64 { return u.MemoryBytes })
	write(h.peaks(), func(u recommender.StepUsage) float64 { return u.CPUPeak })
	return h.steps(step)
}
