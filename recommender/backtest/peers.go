package backtest

import (
	"math"

	"attune.io/attune/recommender"
)

// The algorithms of other projects, reimplemented from their published formulas and defaults. They are not the programs
// themselves: parts of a program beyond its formula (scraping, confidence, eviction) are not replayed.

const (
	minute = hour / 60
	day    = 24 * hour
	mib    = 1 << 20
)

// Peers are the strategies of other projects and the fixed strategies for comparison, in the order of tables.
func Peers() []Strategy {
	return []Strategy{
		{Name: "vpa", New: vpa(Size{0.025, 250 * mib})},
		{Name: "vpa-nofloor", New: vpa(Size{})},
		{Name: "krr-simple", New: krr(Size{0.01, 100e6})},
		{Name: "krr-simple-nofloor", New: krr(Size{})},
		{Name: "autopilot-mw", New: autopilot},
		{Name: "static-max1.2", New: staticMax},
		{Name: "node-alone", New: newNodeAlone},
		{Name: "datadog-cpu", New: datadog(0.95, 1.10)},
		{Name: "datadog-limit-cpu", New: datadog(0.99, 1.05)},
		{Name: "eks-balanced-cpu", New: eks()},
		{Name: "oracle-static", New: oracle(0)},
		{Name: "oracle-1h", New: oracle(hour), Exact: true},
	}
}

// Fixed is a constant size, such as the requests of a template; a resource that is 0 has no request.
func Fixed(name string, size Size) Strategy {
	for r, amount := range size {
		if amount <= 0 {
			size[r] = math.NaN()
		}
	}
	return Strategy{Name: name, Exact: true, New: func(Series) Algorithm {
		return simple{observe: func(Sample) {}, decide: func(int64) Size { return size }}
	}}
}

// deaf is embedded by algorithms that ignore OOM kills.
type deaf struct{}

// OOM implements Algorithm.
func (deaf) OOM(int64, float64) bool { return false }

// simple is an algorithm of two functions that ignores sizes and OOM kills.
type simple struct {
	deaf
	observe func(Sample)
	decide  func(at int64) Size
}

// Observe implements Algorithm.
func (a simple) Observe(s Sample, _ Size) { a.observe(s) }

// Decide implements Algorithm.
func (a simple) Decide(at int64) Size { return a.decide(at) }

// vpaAlgorithm is the recommender of the Vertical Pod Autoscaler. CPU is the 90th percentile of a histogram whose
// weights halve in a day. Memory is the 90th percentile of the peaks of each day. Both get 15 % more. An OOM kill
// counts as a peak of 100 MiB or 20 % above the limit or the peak, whichever is higher.
type vpaAlgorithm struct {
	floors Size
	cpu    histogram
	memory peaks
	// dayEnd is the end of the current day; 0 before the first sample.
	dayEnd int64
}

func vpa(floors Size) func(Series) Algorithm {
	return func(Series) Algorithm {
		return &vpaAlgorithm{
			floors: floors,
			cpu:    histogram{first: 0.01, ratio: 1.05, halfLife: float64(day)},
			memory: peaks{histogram: histogram{first: 1e7, ratio: 1.05, halfLife: float64(day)}},
		}
	}
}

// Observe implements Algorithm.
func (v *vpaAlgorithm) Observe(s Sample, inForce Size) {
	v.cpu.add(s.At, s.Used[recommender.CPU], max(inForce[recommender.CPU], 0.1))
	v.peaked(s.At, s.Used[recommender.Memory])
}

// peaked raises the peak of the day, or begins a new day with the first measured sample.
func (v *vpaAlgorithm) peaked(at int64, used float64) {
	switch {
	case !measured(used):
		return
	case v.dayEnd == 0:
		v.dayEnd = at + day
	case at >= v.dayEnd:
		v.dayEnd += (at-v.dayEnd)/day*day + day
	}
	v.memory.raise(v.dayEnd, used)
}

// OOM implements Algorithm.
func (v *vpaAlgorithm) OOM(at int64, limit float64) bool {
	had := max(limit, v.memory.peak)
	v.peaked(at, max(had+100*mib, had*1.2))
	return true
}

// Decide implements Algorithm.
func (v *vpaAlgorithm) Decide(int64) Size {
	const margin = 1.15
	return floored(Size{v.cpu.percentile(0.9) * margin, v.memory.percentile(0.9) * margin}, v.floors)
}

// floored raises the wanted size to the floors; NaN stays NaN.
func floored(size, floors Size) Size { return Size{max(size[0], floors[0]), max(size[1], floors[1])} }

// cpuAlone is a size that leaves memory unchanged.
func cpuAlone(cores float64) Size { return Size{cores, math.NaN()} }

// windowed sizes by the values of the last days.
func windowed(days int64, size func(cpu, memory *Window) Size) func(Series) Algorithm {
	return func(Series) Algorithm {
		cpu, memory := &Window{Span: days * day}, &Window{Span: days * day}
		return simple{
			observe: func(s Sample) {
				cpu.Add(s.At, s.Used[recommender.CPU])
				memory.Add(s.At, s.Used[recommender.Memory])
			},
			decide: func(int64) Size { return size(cpu, memory) },
		}
	}
}

// krr is the strategy simple of Robusta's KRR, over 14 days: the 95th percentile of CPU, and the maximum of memory plus
// 15 %.
func krr(floors Size) func(Series) Algorithm {
	return windowed(14, func(cpu, memory *Window) Size {
		return floored(Size{cpu.Quantile(0.95), memory.most() * 1.15}, floors)
	})
}

// eks is the setting Balanced that Amazon EKS describes: p95 of CPU over 8 days is 87 % of the request.
func eks() func(Series) Algorithm {
	return windowed(8, func(cpu, _ *Window) Size { return cpuAlone(cpu.Quantile(0.95) / 0.87) })
}

// autopilot is the moving window of Google's Autopilot (EuroSys 2020). CPU is the load-weighted 95th percentile with a
// half-life of 12 hours. Memory is the 98th percentile of 5-minute peaks with a half-life of 48 hours. Both get 12 %
// more.
func autopilot(Series) Algorithm {
	const margin = 1.12
	cpu := histogram{first: 0.002, ratio: 1.05, halfLife: float64(12 * hour)}
	memory := peaks{histogram: histogram{first: mib, ratio: 1.02, halfLife: float64(48 * hour)}}
	return simple{
		observe: func(s Sample) {
			cpu.add(s.At, s.Used[recommender.CPU], s.Used[recommender.CPU])
			memory.raise(above(s.At, 5*minute), s.Used[recommender.Memory])
		},
		decide: func(int64) Size { return Size{cpu.percentile(0.95) * margin, memory.percentile(0.98) * margin} },
	}
}

// datadog is Datadog's published autoscaling formula: a margin on a percentile of a decaying histogram. The margin is
// 10 % on the 95th percentile for requests, and 5 % on the 99th if the limit equals the request. The half-life is
// assumed.
func datadog(quantile, margin float64) func(Series) Algorithm {
	return func(Series) Algorithm {
		cpu := histogram{first: 0.001, ratio: 1.05, halfLife: float64(day)}
		return simple{
			observe: func(s Sample) { cpu.add(s.At, s.Used[recommender.CPU], 1) },
			decide:  func(int64) Size { return cpuAlone(cpu.percentile(quantile) * margin) },
		}
	}
}

// nothing is a size that leaves both resources unchanged.
var nothing = Size{math.NaN(), math.NaN()}

// raise a size to the usage.
func (s *Size) raise(used [2]float64) {
	for r := range s {
		s[r] = recommender.Highest(s[r], used[r])
	}
}

// staticMax is the maximum so far plus 20 %.
func staticMax(Series) Algorithm {
	most := nothing
	return simple{
		observe: func(s Sample) { most.raise(s.Used) },
		decide:  func(int64) Size { return Size{most[0] * 1.2, most[1] * 1.2} },
	}
}

// oracle looks ahead: it wants the maximum of the usage until the end of a span in milliseconds; 0: of the rest of the
// series.
func oracle(span int64) func(Series) Algorithm {
	return func(series Series) Algorithm {
		ahead := series.Samples
		return simple{
			observe: func(Sample) { ahead = ahead[min(1, len(ahead)):] },
			decide: func(at int64) Size {
				most := nothing
				for _, s := range ahead {
					if span > 0 && s.At > at+span {
						break
					}
					most.raise(s.Used)
				}
				if span == 0 {
					ahead = nil // one size for the rest of the series
				}
				return most
			},
		}
	}
}
