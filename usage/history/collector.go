package history

import (
	"fmt"
	"math"
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// collector holds one answer until it is complete. So an interrupted read leaves the histories unchanged, and a later
// answer about a step replaces an earlier one as a whole. It belongs to one read and is not safe for concurrent use.
type collector struct {
	namespaces  map[string]*gathered
	query       usage.Query
	step        int64 // milliseconds
	first, last int64
	// counted is the end of the steps that were read before, in Unix milliseconds.
	counted int64
	// zeros counts samples of 0.
	zeros  int
	report usage.Report
	// latest caches the workload of the last series' pod. Sources yield the series of one pod consecutively, so most
	// series need no lookup.
	latest struct {
		namespace, pod string
		of             *gathered
		number         int
		match          workload.Match
	}
	// spareAnswers and spareValues are preallocated and used one by one.
	spareAnswers []answer
	spareValues  []float64
}

// gathered has the answers about one namespace, indexed by the workload numbers of its resolver.
type gathered struct {
	*resolver
	answers []*answer
}

// answer has the highest value of each step over all pods, starting with the collector's first step. A slice without
// any value is nil. next is the answer of another container of the same workload.
type answer struct {
	container         string
	cpu, peak, memory []float64
	// goneCPU and gonePeak have the CPU of pods that are gone, in steps that were read before: see raiseCPU.
	goneCPU, gonePeak []float64
	// start is the highest CPU of starts, which cpu and peak leave out, and startAt the newest step with such.
	start   float64
	startAt int64
	// implausible has the impossible samples, indexed by resource; nil: there are none.
	implausible *[2]impossible
	next        *answer
}

// impossible has the highest impossible sample of each step. why is the reason of the last piece of the answer that has
// some, and bound what they exceed, in cores or bytes. Zeros do not replace the reason of others.
type impossible struct {
	values []float64
	why    usage.Drop
	bound  float64
}

const (
	// answersAtOnce and valuesAtOnce are allocated together.
	answersAtOnce = 64
	valuesAtOnce  = 2048
)

func newCollector(resolvers map[string]*resolver, query usage.Query) *collector {
	s := &collector{
		namespaces: make(map[string]*gathered, len(resolvers)),
		query:      query,
		step:       query.Step.Milliseconds(),
		first:      usage.StepOf(query.Start, query.Step),
		last:       usage.StepOf(query.End, query.Step),
		counted:    query.Counted.UnixMilli(),
	}
	for namespace, resolver := range resolvers {
		s.namespaces[namespace] = &gathered{resolver: resolver, answers: make([]*answer, len(resolver.wishes))}
	}
	return s
}

// take receives one series from a source.
func (s *collector) take(series usage.Series) {
	s.find(series.Namespace, series.Pod)
	of, number := s.latest.of, s.latest.number
	if of == nil {
		return
	}
	if s.latest.match != workload.MatchFound {
		if s.latest.match == workload.MatchAmbiguous { // pods without a match belong to workloads that are not wanted
			s.query.Drop(&s.report, usage.DropAmbiguous, slices.Concat(series.CPU, series.CPUPeak, series.Memory)...)
		}
		return
	}
	if !of.wishes[number].containers.has(series.Container) {
		return
	}
	to := s.answer(&of.answers[number], series.Container)
	wish := &of.wishes[number]
	s.raiseCPU(to, &to.cpu, &to.goneCPU, &series, series.CPU, wish, s.query.RateWindow)
	s.raiseCPU(to, &to.peak, &to.gonePeak, &series, series.CPUPeak, wish, s.query.Step+s.query.RateWindow)
	s.raise(&to.memory, series.Memory)
	s.raiseImpossible(to, recommender.CPU, series.CPUImplausible, &series)
	s.raiseImpossible(to, recommender.Memory, series.MemoryImplausible, &series)
}

func (s *collector) raiseImpossible(to *answer, r recommender.Resource, samples []usage.Sample, of *usage.Series) {
	if len(samples) == 0 {
		return
	}
	at := to.impossible(r)
	s.raise(&at.values, samples)
	if at.why == "" || of.Why != usage.DropZero {
		at.why, at.bound = of.Why, of.Bound
	}
}

func (a *answer) impossible(r recommender.Resource) *impossible {
	if a.implausible == nil {
		a.implausible = &[2]impossible{}
	}
	return &a.implausible[r]
}

// raiseCPU is raise without the CPU of the container's start, which a Job needs for its whole work. Only the highest CPU
// of starts is kept. The start of a pod
// that is gone is not known, but it was known when a step was first read. So if the step is read again, the pod's CPU
// does not raise it (gone).
func (s *collector) raiseCPU(to *answer, values, gone *[]float64, of *usage.Series, samples []usage.Sample, wish *wish, window time.Duration) {
	kind := wish.workload.Kind
	if kind == v1alpha1.KindJob || kind == v1alpha1.KindCronJob || of.Started == 0 && !of.Gone {
		s.raise(values, samples)
		return
	}
	if of.Gone {
		n := 0
		for n < len(samples) && samples[n].At <= s.counted {
			n++
		}
		s.raise(gone, samples[:n])
		s.raise(values, samples[n:])
		return
	}
	before, after, left := of.AroundStart(samples, wish.of.startup, window)
	s.query.Drop(&s.report, usage.DropStartup, left...)
	for _, sample := range left {
		if sample.Value > to.start && sample.Value <= math.MaxFloat32 {
			to.start = sample.Value
		}
		to.startAt = max(to.startAt, usage.StepHolding(time.UnixMilli(sample.At), s.query.Step))
	}
	s.raise(values, before)
	s.raise(values, after)
}

// leastIdle is the fewest containers that dropIdle compares: fewer may really be idle at once.
const leastIdle = 10

// dropIdle drops CPU of exactly 0 of steps in which more than 90 % of the containers have it: the source does not
// measure CPU.
func (s *collector) dropIdle() {
	if s.zeros < leastIdle {
		return
	}
	of, idle := make([]int, s.last-s.first+1), make([]int, s.last-s.first+1)
	s.each(func(a *answer) {
		for i, value := range a.cpu {
			if !math.IsNaN(value) {
				of[i]++
			}
			if a.idle(i) {
				idle[i]++
			}
		}
	})
	newest := -1
	for i := range of {
		if of[i] < leastIdle || 10*idle[i] <= 9*of[i] {
			idle[i] = 0
		} else {
			newest = i
		}
	}
	if newest < 0 {
		return
	}
	s.each(func(a *answer) {
		for i := range a.cpu {
			if idle[i] > 0 && a.idle(i) {
				s.dropZero(a, i)
			}
		}
	})
	s.report.Warn(fmt.Sprintf("CPU of %d of %d containers is 0, so attune does not use it: it is not measured. Check the kubelets and the container runtime",
		idle[newest], of[newest]))
}

// dropZero turns CPU of 0 into an impossible sample.
func (s *collector) dropZero(a *answer, i int) {
	at := a.impossible(recommender.CPU)
	if at.values == nil {
		at.values, at.why = s.values(), usage.DropZero
	}
	at.values[i] = recommender.Highest(at.values[i], 0)
	a.cpu[i] = math.NaN()
	if a.peak != nil {
		a.peak[i] = math.NaN()
	}
	s.query.Drop(&s.report, usage.DropIdle, usage.Sample{At: (s.first + int64(i)) * s.step})
}

// each visits every answer.
func (s *collector) each(visit func(*answer)) {
	for _, namespace := range s.namespaces {
		for _, a := range namespace.answers {
			for ; a != nil; a = a.next {
				visit(a)
			}
		}
	}
}

// idle reports whether the CPU of a step is exactly 0.
func (a *answer) idle(i int) bool { return a.cpu[i] == 0 && (a.peak == nil || !(a.peak[i] > 0)) }

// find the workload of a pod.
func (s *collector) find(namespace, pod string) {
	latest := &s.latest
	if latest.pod == pod && latest.namespace == namespace {
		return
	}
	if latest.namespace != namespace || latest.of == nil {
		latest.namespace, latest.of = namespace, s.namespaces[namespace]
	}
	latest.pod = pod
	if latest.of != nil {
		latest.number, latest.match = latest.of.number(pod)
	}
}

// answer returns the answer of a container in the list of its workload, and adds it if it is missing.
func (s *collector) answer(at **answer, container string) *answer {
	for ; *at != nil; at = &(*at).next {
		if (*at).container == container {
			return *at
		}
	}
	if len(s.spareAnswers) == 0 {
		s.spareAnswers = make([]answer, answersAtOnce)
	}
	made := &s.spareAnswers[0]
	s.spareAnswers = s.spareAnswers[1:]
	made.container = container
	*at = made
	return made
}

// raise keeps the highest value of each step.
func (s *collector) raise(values *[]float64, samples []usage.Sample) {
	if len(samples) == 0 {
		return
	}
	if *values == nil {
		*values = s.values()
	}
	to := *values
	// Most samples are exactly one step after the previous one.
	i, at := int64(-1), int64(math.MinInt64)
	for _, sample := range samples {
		if sample.At == at+s.step {
			i++
		} else {
			i = usage.StepHolding(time.UnixMilli(sample.At), s.query.Step) - s.first
		}
		at = sample.At
		switch {
		case i < 0 || i >= int64(len(to)):
			s.report.Drop(usage.DropOutside, 1)
		case !(sample.Value >= 0 && sample.Value <= math.MaxFloat64):
			s.report.Drop(usage.DropOf(sample.Value), 1)
		case !(to[i] >= sample.Value):
			to[i] = sample.Value
			if sample.Value == 0 {
				s.zeros++
			}
		}
	}
}

// values returns a slice of NaN with one entry per step.
func (s *collector) values() []float64 {
	steps := s.last - s.first + 1
	if int64(len(s.spareValues)) < steps {
		s.spareValues = gaps(max(steps, valuesAtOnce))
	}
	values := s.spareValues[:steps:steps]
	s.spareValues = s.spareValues[steps:]
	return values
}

// merge writes an answer about one namespace into its histories. It runs under Store.mutex.
type merge struct {
	pool      *pool
	namespace *namespace
	// first is the first step of the answer, last the last step of the window.
	first, last int64
	report      usage.Report
}

// all merges an answer and reports whether a value changed.
func (m *merge) all(g *gathered) (different bool) {
	for number, answer := range g.answers {
		if answer == nil {
			continue
		}
		// The numbers of the namespace may have changed since the query was sent.
		track := m.namespace.track(g.wishes[number].workload)
		for ; answer != nil && track != nil; answer = answer.next {
			if track.wanted.has(answer.container) && m.container(track, answer) {
				different = true
			}
		}
	}
	return different
}

// container merges the answer of one container and reports whether a value changed.
func (m *merge) container(track *track, a *answer) bool {
	m.dropForeign(a)
	known := track.history(a.container)
	if known == nil {
		known = track.add(a.container, m.namespace.share)
		known.slide(m.pool.span(m.last))
	}
	m.keep(&known.cpu, a.cpu, a.goneCPU)
	different := m.replace(&known.cpu, a.cpu)
	if a.peak != nil {
		m.keep(known.peaks(), a.peak, a.gonePeak)
		different = m.replace(known.peaks(), a.peak) || different
	}
	different = m.replace(&known.memory, a.memory) || different
	different = known.countImplausible(a, m) || different
	different = known.starts.raise(float32(a.start), a.startAt, m.pool.length) || different
	if different {
		known.version++
	}
	return different
}

// dropForeign removes the values of steps that began before the namespace was created (namespace.since).
func (m *merge) dropForeign(a *answer) {
	foreign := usage.StepOf(m.namespace.since, m.pool.settings.QueryStep) - m.first + 1
	if m.namespace.since.IsZero() || foreign <= 0 {
		return
	}
	all := [][]float64{a.cpu, a.peak, a.memory, a.goneCPU, a.gonePeak}
	if a.implausible != nil {
		all = append(all, a.implausible[recommender.CPU].values, a.implausible[recommender.Memory].values)
	}
	for _, values := range all {
		for i := range min(int64(len(values)), foreign) {
			values[i] = math.NaN()
		}
	}
	if a.startAt < m.first+foreign {
		a.start, a.startAt = 0, 0
	}
}

// keep raises values to those of pods that are gone, up to what is known: they do not raise it, nor let it fall.
func (m *merge) keep(s *series, values, gone []float64) {
	if values == nil || gone == nil {
		return
	}
	known := s.values(m.first, m.first+int64(len(values))-1)
	for i := range values {
		if used := min(gone[i], known[i]); used > values[i] {
			values[i] = used
		}
	}
}

// replace overwrites earlier values, because the first answer about a step has fewer samples than the next. It reports
// whether a value changed. A packed value counts as changed only if its bucket changes. Otherwise each overlap would
// change the version, and every digest would be computed again.
func (m *merge) replace(s *series, values []float64) bool {
	first := m.first
	for len(values) > 0 && (first < s.first || math.IsNaN(values[0])) {
		first, values = first+1, values[1:]
	}
	if len(values) == 0 {
		return false
	}
	if !s.room(first, int64(len(values))) {
		m.report.Drop(usage.DropFull, measured(values))
		return false
	}
	packed := s.next
	if s.empty() {
		packed = first
	}
	s.open(first)
	different := false
	for i, value := range values {
		step := first + int64(i)
		before := s.opened(step)
		switch {
		case math.IsNaN(value) || before == value || m.report.Partial && value < before:
			// A partial answer may lack the highest replica, so it only raises what is known.
		case step < packed && codec.BucketOf(before) == codec.BucketOf(value):
		case s.put(step, value):
			different = true
		}
	}
	m.report.Drop(usage.DropFull, s.close())
	return different
}
