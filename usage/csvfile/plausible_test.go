package csvfile_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage"
	"attune.io/attune/usage/csvfile"
)

// dayOf is a day of similar samples, with others at its end.
func dayOf(cpu, memory float64, last ...backtest.Sample) backtest.Series {
	s := backtest.Series{ID: "app"}
	for i := range 288 {
		s.Samples = append(s.Samples, backtest.Sample{At: int64(i+1) * 300_000, Used: [2]float64{cpu, memory}})
	}
	for i, sample := range last {
		sample.At = s.Samples[288-len(last)+i].At
		s.Samples[288-len(last)+i] = sample
	}
	return s
}

func TestSamplesOfFilesThatCannotBeTrueAreDropped(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for name, tc := range map[string]struct {
		series                     backtest.Series
		bounds                     usage.Most
		cpu, memory, zero, blocked int
	}{
		"nothing":                            {series: dayOf(0.1, 300*mib)},
		"1,600 cores steady":                 {series: dayOf(1600, 300*mib), cpu: 288, blocked: 288},
		"just under 1,024 cores steady":      {series: dayOf(1023, 300*mib)},
		"10 TiB once":                        {series: dayOf(0.1, 300*mib, backtest.Sample{Used: [2]float64{0.1, 10 << 40}}), memory: 1},
		"1e308 once":                         {series: dayOf(0.1, 300*mib, backtest.Sample{Used: [2]float64{1e308, 1e308}}), cpu: 1, memory: 1},
		"1e308 steady":                       {series: dayOf(1e308, 300*mib), cpu: 288, blocked: 288},
		"166 cores once":                     {series: dayOf(0.1, 300*mib, backtest.Sample{Used: [2]float64{166, 300 * mib}}), cpu: 1},
		"memory of 0":                        {series: dayOf(0.01, 0), zero: 288},
		"idle CPU with a burst":              {series: dayOf(0, 300*mib, backtest.Sample{Used: [2]float64{8, 300 * mib}})},
		"idle memory with a burst":           {series: dayOf(0.1, 4096, backtest.Sample{Used: [2]float64{0.1, 900 * mib}})},
		"idle CPU with a burst of 40 cores":  {series: dayOf(0, 300*mib, backtest.Sample{Used: [2]float64{40, 300 * mib}}), cpu: 1},
		"the same on a known node":           {series: dayOf(0, 300*mib, backtest.Sample{Used: [2]float64{40, 300 * mib}}), bounds: usage.Most{Cores: 64}},
		"40 cores of HA counters on 8 cores": {series: dayOf(40, 300*mib), bounds: usage.Most{Cores: 12}, cpu: 288, blocked: 288},
		"above the memory of its node":       {series: dayOf(0.1, 65*gib), bounds: usage.Most{Bytes: 64 * gib}, memory: 288},
		"half a day": {series: func() backtest.Series {
			s := dayOf(0.1, 300*mib)
			for i := range 144 {
				s.Samples[i].Used[0] = 1600
			}
			return s
		}(), cpu: 144},
		"two samples": {series: backtest.Series{ID: "app", Samples: []backtest.Sample{{At: 1, Used: [2]float64{0.01, mib}}, {At: 2, Used: [2]float64{900, mib}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			end := time.UnixMilli(tc.series.Samples[len(tc.series.Samples)-1].At)
			dropped := csvfile.DropImplausible(tc.series, tc.bounds)
			got := []int{dropped[recommender.CPU].Implausible, dropped[recommender.Memory].Implausible, dropped[recommender.Memory].Zero}
			assert.Equal(t, []int{tc.cpu, tc.memory, tc.zero}, got)
			gaps := 0
			for _, s := range tc.series.Samples {
				for _, value := range s.Used {
					if math.IsNaN(value) {
						gaps++
					}
				}
			}
			assert.Equal(t, tc.cpu+tc.memory+tc.zero, gaps, "what is dropped is a gap")
			i := dropped[recommender.CPU].Implausible
			of := dropped[recommender.CPU].Bound(recommender.CPU)
			counted := csvfile.InDay(tc.series, dropped, end)[recommender.CPU]
			assert.Equal(t, i, counted.Dropped)
			assert.Equal(t, of.Most, counted.Most)
			assert.Equal(t, tc.blocked > 0, counted.Blocks())
		})
	}
}
