package csvfile_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage/csvfile"
)

func TestSteps(t *testing.T) {
	nan := math.NaN()
	stepUsage := func(seconds int64, cpu, memory, peak float64) recommender.StepUsage {
		return recommender.StepUsage{At: time.Unix(seconds, 0).UTC(), CPUCores: cpu, MemoryBytes: memory, CPUPeak: peak, MemoryPeak: nan}
	}
	for _, test := range []struct {
		name    string
		samples []backtest.Sample
		want    []recommender.StepUsage
	}{
		{"nothing", nil, nil},
		{"one sample", []backtest.Sample{sample(7, 1, 2)}, []recommender.StepUsage{stepUsage(7, 1, 2, nan)}},
		{
			"finer: the mean of CPU with its peak, the highest memory, a step with its end",
			[]backtest.Sample{sample(300, 9, 9), sample(301, 1, 10), sample(400, 2, 30), sample(600, 6, 20), sample(601, 4, 5)},
			[]recommender.StepUsage{stepUsage(300, 9, 9, 9), stepUsage(600, 3, 30, 6), stepUsage(900, 4, 5, 4)},
		},
		{
			"what was not measured does not count as nothing",
			[]backtest.Sample{sample(301, nan, nan), sample(360, 2, nan), sample(420, 4, nan), sample(660, nan, 7), sample(720, nan, nan), sample(901, nan, nan)},
			[]recommender.StepUsage{stepUsage(600, 3, nan, 4), stepUsage(900, nan, 7, nan), stepUsage(1200, nan, nan, nan)},
		},
		{
			"as far apart as the step, and not at its ends",
			[]backtest.Sample{sample(7, 1, 1), sample(307, 2, 2), sample(607, 3, 3)},
			[]recommender.StepUsage{stepUsage(7, 1, 1, nan), stepUsage(307, 2, 2, nan), stepUsage(607, 3, 3, nan)},
		},
		{
			"a little early and late",
			[]backtest.Sample{sample(300, 1, 1), sample(600, 2, 2), sample(899, 3, 3), sample(1200, 4, 4)},
			[]recommender.StepUsage{stepUsage(300, 1, 1, nan), stepUsage(600, 2, 2, nan), stepUsage(899, 3, 3, nan), stepUsage(1200, 4, 4, nan)},
		},
		{
			"coarser",
			[]backtest.Sample{sample(0, 1, 1), sample(3600, 2, 2)},
			[]recommender.StepUsage{stepUsage(0, 1, 1, nan), stepUsage(3600, 2, 2, nan)},
		},
		{
			"fine samples with a long gap are fine samples",
			[]backtest.Sample{sample(60, 1, 1), sample(120, 1, 1), sample(180, 1, 1), sample(9000, 1, 1)},
			[]recommender.StepUsage{stepUsage(300, 1, 1, 1), stepUsage(9000, 1, 1, 1)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := csvfile.Steps(backtest.Series{Samples: test.samples}, 5*time.Minute)
			assert.Empty(t, cmp.Diff(test.want, got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()))
		})
	}
}

func TestTheMeanOfEqualValuesIsThatValue(t *testing.T) {
	var samples []backtest.Sample
	for i := int64(1); i <= 3; i++ {
		samples = append(samples, sample(i*60, 0.2, 1))
	}
	steps := csvfile.Steps(backtest.Series{Samples: samples}, 5*time.Minute)
	require.Len(t, steps, 1)
	assert.InDelta(t, 0.2, steps[0].CPUCores, 0, "0.2 + 0.2 + 0.2 is more than 0.6, and a millicore too many in the end")
}

func TestAResourceThatWasNeverMeasuredStaysSo(t *testing.T) {
	var samples []backtest.Sample
	for i := range int64(1000) {
		samples = append(samples, sample(i*60, math.NaN(), 100))
	}
	profile := recommender.NewProfile(csvfile.Steps(backtest.Series{Samples: samples}, 5*time.Minute), 5*time.Minute)
	assert.Zero(t, profile.Of[recommender.CPU].Points)
	assert.Equal(t, 201, profile.Of[recommender.Memory].Points)
}
