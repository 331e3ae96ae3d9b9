package history

import (
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// AsStored returns usage as Store.Steps would, oldest first: at the ends of whole steps, with an error of at most
// codec.MaxError if a Store packs them. So results computed from a file equal the operator's results for the same usage
// exactly. steps must be oldest first. If several are within one whole step, the highest values count.
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
