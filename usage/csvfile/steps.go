package csvfile

import (
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage"
)

// Steps returns a series' samples as steps of history, oldest first; nil for a series without samples. Steps without a
// sample are omitted.
//
// Samples finer than the step are combined: CPU is the mean of the step's samples with the highest one as its peak,
// memory is the highest. A step ends At and includes its end, as in the answers of a Prometheus server.
//
// If the samples are at least as far apart as the step (by their median distance), each one is a step of its own, at
// its own time. Otherwise samples that come a little early or late would share a step or leave one empty. The samples
// are sorted, so the samples of one step are next to each other.
func Steps(series backtest.Series, step time.Duration) []recommender.StepUsage {
	if len(series.Samples) == 0 {
		return nil
	}
	steps := make([]recommender.StepUsage, 0, len(series.Samples))
	if len(series.Samples) < 2 || backtest.Step(series.Samples) >= step {
		for _, sample := range series.Samples {
			steps = append(steps, recommender.SingleStep(time.UnixMilli(sample.At).UTC(), sample.Used[recommender.CPU], sample.Used[recommender.Memory]))
		}
		return steps
	}
	for rest := series.Samples; len(rest) > 0; {
		number := usage.StepHolding(time.UnixMilli(rest[0].At), step)
		of := recommender.NewGathering(usage.StepEnd(number, step))
		for len(rest) > 0 && usage.StepHolding(time.UnixMilli(rest[0].At), step) == number {
			of.Add(rest[0].Used[recommender.CPU], rest[0].Used[recommender.Memory])
			rest = rest[1:]
		}
		steps = append(steps, of.Step())
	}
	return steps
}
