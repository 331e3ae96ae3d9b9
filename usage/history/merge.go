package history

import (
	"math"

	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// merge writes an answer about one namespace into its histories. It runs under Store.mutex.
type merge struct {
	pool      *pool
	namespace *namespace
	// first step of the answer, and the last one of the window.
	first, last int64
	report      usage.Report
}

// all of an answer; it returns whether anything is different now.
func (m *merge) all(g *gathered) (different bool) {
	for number, answer := range g.answers {
		if answer == nil {
			continue
		}
		track := g.trackOf(m.namespace, number)
		for ; answer != nil && track != nil; answer = answer.next {
			if track.wanted.has(answer.container) && m.container(track, answer) {
				different = true
			}
		}
	}
	return different
}

// trackOf a number, among those of its namespace, which may have changed while the answer was on its way.
func (g *gathered) trackOf(n *namespace, number int) *track {
	if n.resolver == g.resolver {
		return n.tracks[number]
	}
	return n.track(g.wishes[number].workload)
}

// container is merged; it returns whether anything is different now.
func (m *merge) container(track *track, a *answer) bool {
	known := track.history(a.container)
	if known == nil {
		known = track.add(a.container, m.namespace.share)
		known.slide(m.pool.span(m.last))
	}
	different := m.replace(&known.cpu, a.cpu)
	if a.peak != nil {
		different = m.replace(known.peaks(), a.peak) || different
	}
	different = m.replace(&known.memory, a.memory) || different
	if different {
		known.version++
	}
	return different
}

// replace writes values over earlier ones, since the first answer about a step is made of fewer samples than the
// next. It returns true where a value changed. A packed value counts as changed only where it falls into another
// bucket; else each overlap would change the version and every digest would be made again.
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
			m.tally(step, before)
		}
	}
	m.report.Drop(usage.DropFull, s.close())
	return different
}

// tally counts a step that was read again and is different now.
func (m *merge) tally(step int64, before float64) {
	switch {
	case !math.IsNaN(before):
		m.pool.state.Revised++
	case step <= m.pool.increments.read && step > m.pool.increments.read-overlap:
		m.pool.state.Late++
	}
}
