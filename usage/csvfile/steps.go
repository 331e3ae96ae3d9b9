package csvfile

import (
	"math"
	"slices"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage"
)

// Steps returns a series' samples as steps of history, oldest first; nil for a series without samples. Steps
// without a sample are left out.
//
// Samples that are finer than the step are put together: CPU is the mean of the step's samples with the highest
// one as its peak, memory is the highest. A step ends At and includes its end, as in the answers of a Prometheus
// server.
//
// Where the samples are as far apart as the step or farther (by the median of their distances), each one is a step
// of its own, at its own time. There is nothing to be put together then, and samples that come a little early or
// late would share a step or leave one empty.
// The samples are sorted, so those of one step are next to each other and are taken from the front.
func Steps(series backtest.Series, step time.Duration) []recommender.StepUsage {
	if len(series.Samples) == 0 {
		return nil
	}
	steps := make([]recommender.StepUsage, 0, len(series.Samples))
	if spacing(series.Samples) >= step {
		for _, sample := range series.Samples {
			steps = append(steps, recommender.SingleStep(time.UnixMilli(sample.At).UTC(), sample.Used[recommender.CPU], sample.Used[recommender.Memory]))
		}
		return steps
	}
	for rest := series.Samples; len(rest) > 0; {
		number := usage.StepHolding(time.UnixMilli(rest[0].At), step)
		n := 1
		for n < len(rest) && usage.StepHolding(time.UnixMilli(rest[n].At), step) == number {
			n++
		}
		steps = append(steps, together(usage.StepEnd(number, step), rest[:n]))
		rest = rest[n:]
	}
	return steps
}

// spacing is the median distance between neighbouring samples; that of a single one is without bound.
func spacing(samples []backtest.Sample) time.Duration {
	if len(samples) < 2 {
		return math.MaxInt64
	}
	distances := make([]int64, len(samples)-1)
	for i := range distances {
		distances[i] = samples[i+1].At - samples[i].At
	}
	slices.Sort(distances)
	return time.Duration(distances[len(distances)/2]) * time.Millisecond
}

// together makes one step of the samples within it.
func together(at time.Time, samples []backtest.Sample) recommender.StepUsage {
	step := recommender.NewGathering(at)
	for _, sample := range samples {
		step.Add(sample.Used[recommender.CPU], sample.Used[recommender.Memory])
	}
	return step.Step()
}
