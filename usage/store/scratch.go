package store

import (
	"math"

	"attune.io/attune/usage"
	"attune.io/attune/usage/podname"
)

// scratch collects an answer, so that a read which breaks off leaves the histories as they were, and a
// later answer about a step replaces an earlier one.
type scratch struct {
	resolvers   map[string]*resolver
	query       usage.Query
	first, last int64
	containers  map[place]*answer
	report      usage.Report
}

// place is where an answer belongs.
type place struct {
	namespace string
	workload  podname.Workload
	container string
}

// answer holds the highest values of each step over all pods, from the scratch's first step on. A slice
// without any value is nil.
type answer struct{ cpu, peak, memory []float64 }

func newScratch(resolvers map[string]*resolver, query usage.Query) *scratch {
	return &scratch{
		resolvers:  resolvers,
		query:      query,
		first:      usage.StepOf(query.Start, query.Step),
		last:       usage.StepOf(query.End, query.Step),
		containers: map[place]*answer{},
	}
}

// take is what a source yields to.
func (s *scratch) take(series usage.Series) {
	resolver := s.resolvers[series.Namespace]
	if resolver == nil {
		return
	}
	workload, match := resolver.of(series)
	switch match {
	case podname.Ambiguous:
		s.report.Drop(usage.DropAmbiguous, len(series.CPU)+len(series.CPUPeak)+len(series.Memory))
		return
	case podname.Unknown:
		return
	}
	at := place{series.Namespace, workload, series.Container}
	to := s.containers[at]
	if to == nil {
		to = &answer{}
		s.containers[at] = to
	}
	s.raise(&to.cpu, series.CPU)
	s.raise(&to.peak, series.CPUPeak)
	s.raise(&to.memory, series.Memory)
}

// raise keeps the highest value of each step.
func (s *scratch) raise(values *[]float64, samples []usage.Sample) {
	if len(samples) > 0 && *values == nil {
		*values = nothing(s.last - s.first + 1)
	}
	for _, sample := range samples {
		step := usage.StepHolding(sample.Time(), s.query.Step)
		switch {
		case step < s.first || step > s.last:
			s.report.Drop(usage.DropOutside, 1)
		case usage.DropOf(sample.Value) != "":
			s.report.Drop(usage.DropOf(sample.Value), 1)
		case !((*values)[step-s.first] >= sample.Value):
			(*values)[step-s.first] = sample.Value
		}
	}
}

// nothing is a number of steps without values.
func nothing(steps int64) []float64 {
	values := make([]float64, steps)
	for i := range values {
		values[i] = math.NaN()
	}
	return values
}
