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

// rising is a day of a CPU counter.
func rising(from, by float64) backtest.Series {
	s := dayOf(0, 300<<20)
	for i := range s.Samples {
		s.Samples[i].Used[recommender.CPU] = from + float64(i)*by
	}
	return s
}

var small = recommender.Size{recommender.CPU: {Request: 500, Limit: 1000}, recommender.Memory: {Request: 512 << 20, Limit: 1 << 30}}

func TestSamplesOfFilesThatCannotBeTrueAreDropped(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for name, tc := range map[string]struct {
		series                     backtest.Series
		bounds                     usage.Most
		size                       recommender.Size
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
		"millicores":                  {series: dayOf(300, 300*mib), size: small, cpu: 288, blocked: 288},
		"percent":                     {series: dayOf(30, 300*mib), size: small, cpu: 288, blocked: 288},
		"30 cores of a known node":    {series: dayOf(30, 300*mib), size: small, bounds: usage.Most{Cores: 48}},
		"30 cores of an unknown size": {series: dayOf(30, 300*mib)},
		"9 cores, the request is 10m": {series: dayOf(9, 300*mib), size: recommender.Size{{Request: 10}}},
		"MiB":                         {series: dayOf(0.3, 286.1), memory: 288},
		"KiB":                         {series: dayOf(0.3, 292968), memory: 288},
		"a counter":                   {series: rising(0, 90), cpu: 288, blocked: 288},
		"40 cores of HA counters, the limit is 1 core": {series: dayOf(40, 300*mib), size: small, cpu: 288, blocked: 288},
		"memory of 2^64 - 1 once":                      {series: dayOf(0.1, 300*mib, backtest.Sample{Used: [2]float64{0.1, 1 << 64}}), memory: 1},
		"the largest limit of a cgroup":                {series: dayOf(0.1, 9223372036854771712), memory: 288},
		"GiB":                                          {series: dayOf(0.3, 0.3), memory: 288},
		"a counter of an idle container":               {series: rising(10, 0.3), cpu: 288, blocked: 288},
		"a counter that restarts each hour": {series: func() backtest.Series {
			s := rising(0, 90)
			for i := range s.Samples {
				s.Samples[i].Used[0] = float64(i%12) * 90
			}
			return s
		}(), cpu: 288, blocked: 288},
		"usage that rises slowly and falls, again and again": {series: func() backtest.Series {
			s := rising(0, 0)
			for i := range s.Samples {
				s.Samples[i].Used[0] = 0.1 + float64(i%60)/100
			}
			return s
		}()},
		"a wave": {series: func() backtest.Series {
			s := rising(0, 0)
			for i := range s.Samples {
				s.Samples[i].Used[0] = 1 + math.Sin(float64(i)/10)
			}
			return s
		}()},
		"two samples": {series: backtest.Series{ID: "app", Samples: []backtest.Sample{{At: 1, Used: [2]float64{0.01, mib}}, {At: 2, Used: [2]float64{900, mib}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			end := time.UnixMilli(tc.series.Samples[len(tc.series.Samples)-1].At)
			dropped := csvfile.DropImplausible(tc.series, tc.bounds, tc.size)
			got := []int{dropped[recommender.CPU].Implausible, dropped[recommender.Memory].Implausible, dropped[recommender.Memory].Zero}
			assert.Equal(t, []int{tc.cpu, tc.memory, tc.zero}, got, csvfile.Told(dropped))
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

func TestDroppedSamplesAreToldWithTheirCause(t *testing.T) {
	const mib = 1 << 20
	for want, tc := range map[string]struct {
		series backtest.Series
		bounds usage.Most
		size   recommender.Size
	}{
		"288 cpu samples were dropped, up to 300 cores: the median is 600 times the current 500m. If cpu_cores is in millicores, divide it by 1000; if the samples are right, set --node":     {series: dayOf(300, 300*mib), size: small},
		"288 cpu samples were dropped, up to 30 cores: the median is 60 times the current 500m. If cpu_cores is in percent of a core, divide it by 100; if the samples are right, set --node": {series: dayOf(30, 300*mib), size: small},
		"288 cpu samples were dropped, up to 251362897 cores: no container can use more than 1024 cores. If cpu_cores is in nanocores, divide it by 1000000000":                               {series: dayOf(251362897, 300*mib)},
		"288 cpu samples were dropped, up to 2731514 cores: no container can use more than 12 cores. If cpu_cores is in nanocores, divide it by 1000000000":                                   {series: dayOf(2731514, 300*mib), bounds: usage.Most{Cores: 12}},
		"288 cpu samples were dropped, up to 36064.1 cores: cpu_cores only rises, as a counter of CPU seconds does. Use rate(container_cpu_usage_seconds_total[5m])":                          {series: rising(10234.1, 90)},
		"288 memory samples were dropped, up to 286.1: all samples are below 1Mi. If memory_bytes is in MiB, multiply it by 1048576":                                                          {series: dayOf(0.3, 286.1)},
		"288 memory samples were dropped, up to 286.1Ki: all samples are below 1Mi. If memory_bytes is in KiB, multiply it by 1024":                                                           {series: dayOf(0.3, 292968)},
		"288 memory samples were dropped, up to 0.28: all samples are below 1Mi. If memory_bytes is in GiB, multiply it by 1073741824":                                                        {series: dayOf(0.3, 0.28)},
		"1 cpu samples were dropped, up to 166 cores: more than 1000 times the median of the series, 100m":                                                                                    {series: dayOf(0.1, 300*mib, backtest.Sample{Used: [2]float64{166, 300 * mib}})},
		"1 memory samples were dropped, up to 10Ti: no container can use more than 64Gi":                                                                                                      {series: dayOf(0.1, 300*mib, backtest.Sample{Used: [2]float64{0.1, 10 << 40}}), bounds: usage.Most{Bytes: 64 << 30}},
	} {
		assert.Equal(t, []string{want}, csvfile.Told(csvfile.DropImplausible(tc.series, tc.bounds, tc.size)))
	}
}
