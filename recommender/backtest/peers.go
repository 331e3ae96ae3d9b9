package backtest

import (
	"math"

	"attune.io/attune/recommender"
)

// The algorithms of others, written anew from their published formulas and defaults. They are not the programs
// themselves: what a program does beside its formula (scraping, confidence, eviction) is not played.

const (
	minute = hour / 60
	day    = 24 * hour
	mib    = 1 << 20
)

// Peers are the strategies of others and the fixed ones that they are compared with, in the order of tables.
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
		{Name: "eks-balanced-cpu", New: eks},
		{Name: "oracle-static", New: oracleStatic},
		{Name: "oracle-1h", New: oracleHour, Exact: true},
	}
}

// Fixed is one size for all of time, such as what a template asks for; a resource that is 0 has no request.
func Fixed(name string, size Size) Strategy {
	return Strategy{Name: name, Exact: true, New: func(Series) Algorithm { return fixed{size: size} }}
}

type fixed struct {
	deaf
	size Size
}

// Observe implements Algorithm.
func (fixed) Observe(Sample, Size) {}

// Decide implements Algorithm.
func (f fixed) Decide(int64) Size {
	size := f.size
	for r, amount := range size {
		if amount <= 0 {
			size[r] = math.NaN()
		}
	}
	return size
}

// deaf are algorithms that do not hear of OOM kills.
type deaf struct{}

// OOM implements Algorithm.
func (deaf) OOM(int64, float64) bool { return false }

// vpaAlgorithm is the recommender of the Vertical Pod Autoscaler: CPU is the 90th percentile of a histogram whose
// weights halve in a day, memory that of the peaks of each day, both with 15 % more. An OOM kill counts as a peak of
// 100 MiB or 20 % more than there was.
type vpaAlgorithm struct {
	floors      Size
	cpu, memory histogram
	// peak of the day that ends at dayEnd.
	peak   float64
	dayEnd int64
	limit  float64
}

func vpa(floors Size) func(Series) Algorithm {
	return func(Series) Algorithm {
		return &vpaAlgorithm{
			floors: floors,
			cpu:    histogram{first: 0.01, ratio: 1.05, halfLife: float64(day)},
			memory: histogram{first: 1e7, ratio: 1.05, halfLife: float64(day)},
		}
	}
}

// Observe implements Algorithm.
func (v *vpaAlgorithm) Observe(s Sample, inForce Size) {
	v.limit = inForce[recommender.Memory]
	if used := s.Used[recommender.CPU]; measured(used) {
		v.cpu.add(s.At, used, max(inForce[recommender.CPU], 0.1))
	}
	if used := s.Used[recommender.Memory]; measured(used) {
		v.peaked(s.At, used)
	}
}

// peaked raises the peak of the day, or begins a new day.
func (v *vpaAlgorithm) peaked(at int64, used float64) {
	switch {
	case v.dayEnd == 0:
		v.dayEnd = at + day
	case at >= v.dayEnd:
		v.dayEnd += (at-v.dayEnd)/day*day + day
	case used <= v.peak:
		return
	default:
		v.memory.add(v.dayEnd, v.peak, -1)
	}
	v.peak = used
	v.memory.add(v.dayEnd, used, 1)
}

// OOM implements Algorithm.
func (v *vpaAlgorithm) OOM(at int64, limit float64) bool {
	had := max(limit, v.peak)
	v.peaked(at, max(had+100*mib, had*1.2))
	return true
}

// Decide implements Algorithm.
func (v *vpaAlgorithm) Decide(int64) Size {
	const margin = 1.15
	return floored(Size{v.cpu.percentile(0.9) * margin, v.memory.percentile(0.9) * margin}, v.floors)
}

// floored raises what is wanted to the floors; what is NaN stays so.
func floored(size, floors Size) Size { return Size{max(size[0], floors[0]), max(size[1], floors[1])} }

// cpuAlone is a size without a wish for memory.
func cpuAlone(cores float64) Size { return Size{cores, math.NaN()} }

// windowed sizes by the values of a window, each resource by its own.
type windowed struct {
	deaf
	cpu, memory Window
	size        func(w *windowed) Size
}

// Observe implements Algorithm.
func (w *windowed) Observe(s Sample, _ Size) {
	if used := s.Used[recommender.CPU]; measured(used) {
		w.cpu.Add(s.At, used)
	}
	if used := s.Used[recommender.Memory]; measured(used) {
		w.memory.Add(s.At, used)
	}
}

// Decide implements Algorithm.
func (w *windowed) Decide(int64) Size { return w.size(w) }

// krr is the strategy simple of Robusta's KRR: the 95th percentile of CPU and 15 % more than the most memory, of 14 days.
func krr(floors Size) func(Series) Algorithm {
	return func(Series) Algorithm {
		return &windowed{cpu: Window{Span: 14 * day}, memory: Window{Span: 14 * day}, size: func(w *windowed) Size {
			return floored(Size{w.cpu.Quantile(0.95), w.memory.most() * 1.15}, floors)
		}}
	}
}

// eks is the setting Balanced that Amazon EKS describes: p95 of CPU over 8 days is to be 87 % of the request.
func eks(Series) Algorithm {
	return &windowed{cpu: Window{Span: 8 * day}, size: func(w *windowed) Size { return cpuAlone(w.cpu.Quantile(0.95) / 0.87) }}
}

// autopilotWindow is the moving window of Google's Autopilot (EuroSys 2020): CPU is the load-weighted 95th percentile
// with a half-life of 12 hours, memory the 98th of 5-minute peaks with one of 48 hours; 12 % more of both.
type autopilotWindow struct {
	deaf
	cpu, memory histogram
	peak        float64
	peakOf      int64
}

func autopilot(Series) Algorithm {
	return &autopilotWindow{
		cpu:    histogram{first: 0.002, ratio: 1.05, halfLife: float64(12 * hour)},
		memory: histogram{first: mib, ratio: 1.02, halfLife: float64(48 * hour)},
	}
}

// Observe implements Algorithm.
func (a *autopilotWindow) Observe(s Sample, _ Size) {
	if used := s.Used[recommender.CPU]; measured(used) {
		a.cpu.add(s.At, used, used)
	}
	used := s.Used[recommender.Memory]
	if !measured(used) {
		return
	}
	of := (s.At + 5*minute - 1) / (5 * minute)
	switch {
	case of != a.peakOf:
		a.peak, a.peakOf = used, of
	case used <= a.peak:
		return
	default:
		a.memory.add(of*5*minute, a.peak, -1)
		a.peak = used
	}
	a.memory.add(of*5*minute, used, 1)
}

// Decide implements Algorithm.
func (a *autopilotWindow) Decide(int64) Size {
	const margin = 1.12
	return Size{a.cpu.percentile(0.95) * margin, a.memory.percentile(0.98) * margin}
}

// datadogCPU is what Datadog publishes of its autoscaling: a margin on a percentile of a histogram that fades. It is 10 % on
// the 95th percentile for requests, and 5 % on the 99th where the limit equals the request. The half-life is assumed.
type datadogCPU struct {
	deaf
	cpu              histogram
	quantile, margin float64
}

func datadog(quantile, margin float64) func(Series) Algorithm {
	return func(Series) Algorithm {
		return &datadogCPU{cpu: histogram{first: 0.001, ratio: 1.05, halfLife: float64(day)}, quantile: quantile, margin: margin}
	}
}

// Observe implements Algorithm.
func (d *datadogCPU) Observe(s Sample, _ Size) {
	if used := s.Used[recommender.CPU]; measured(used) {
		d.cpu.add(s.At, used, 1)
	}
}

// Decide implements Algorithm.
func (d *datadogCPU) Decide(int64) Size { return cpuAlone(d.cpu.percentile(d.quantile) * d.margin) }

// maximum is 20 % more than the most that was ever used.
type maximum struct {
	deaf
	most Size
}

func staticMax(Series) Algorithm { return &maximum{most: nothing} }

// nothing is wanted of either resource.
var nothing = Size{math.NaN(), math.NaN()}

// Observe implements Algorithm.
func (m *maximum) Observe(s Sample, _ Size) {
	for r, used := range s.Used {
		m.most[r] = recommender.Highest(m.most[r], used)
	}
}

// Decide implements Algorithm.
func (m *maximum) Decide(int64) Size { return Size{m.most[0] * 1.2, m.most[1] * 1.2} }

// oracle looks ahead: it wants the most that will be used until the end of a span.
type oracle struct {
	deaf
	samples []Sample
	// span in milliseconds; 0: to the end.
	span int64
	next int
}

func oracleStatic(s Series) Algorithm { return &oracle{samples: s.Samples} }
func oracleHour(s Series) Algorithm   { return &oracle{samples: s.Samples, span: hour} }

// Observe implements Algorithm.
func (o *oracle) Observe(Sample, Size) { o.next++ }

// Decide implements Algorithm.
func (o *oracle) Decide(at int64) Size {
	if o.samples == nil {
		return nothing
	}
	most := nothing
	for _, s := range o.samples[o.next:] {
		if o.span > 0 && s.At > at+o.span {
			break
		}
		for r, used := range s.Used {
			most[r] = recommender.Highest(most[r], used)
		}
	}
	if o.span == 0 {
		o.samples = nil // one size for the rest of time
	}
	return most
}
