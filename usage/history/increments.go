package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"attune.io/attune/internal/backoff"
	"attune.io/attune/usage"
)

// increments reads a source forward as time passes, for all workloads at once. Each query repeats the last overlap
// steps. A span of steps may take several queries, each about some of the namespaces. When all namespaces are done,
// read moves to the end of the span. If the source rejects a query as too large, the next one has half of its steps,
// and then half of its namespaces. A namespace that is too large by itself is skipped and read again later (lacks).
type increments struct {
	// read is the newest step that has been read for every covered track; 0: no step.
	read    int64
	cut     incrementCut
	mending mending
}

// incrementCut limits the next query about new steps after a rejection, and records the progress within a span.
type incrementCut struct {
	// steps and names are the most steps and namespaces in one query; 0: no limit. Both grow again after a span that
	// was answered without a rejection.
	steps int64
	names int
	// halved: a query of the span was too large.
	halved bool
	// end is the last step of the current span; 0: no span is being read. done has the namespaces of the span that were
	// queried.
	end  int64
	done map[string]bool
	// refused lists the namespaces of the span that were too large by themselves. answered is true after any namespace
	// of the span was answered.
	refused  []string
	answered bool
}

// next returns the limits of the next span: the same, or twice as much if no query of the last span was rejected.
func (c incrementCut) next() incrementCut {
	if c.halved {
		return incrementCut{steps: c.steps, names: c.names}
	}
	return incrementCut{steps: min(2*c.steps, maxChunk), names: 2 * c.names}
}

// plan returns the query for new steps in all namespaces, or for a part of them after a rejection. It returns nil if
// nothing is due. room limits the values of an answer. backfilled means that the past has been queried.
func (i *increments) plan(x *index, last, room int64, backfilled bool) *usage.Query {
	if i.read == 0 && backfilled {
		i.read = last - 1 // the past is read first, if the source has any
	}
	if i.read == 0 || i.read >= last || len(x.namespaces) == 0 {
		// The rejection may have been temporary.
		i.cut = incrementCut{}
		return nil
	}
	names := i.names(x)
	if len(names) == 0 { // the remaining namespaces of the span are not wanted any more
		i.read, i.cut = i.cut.end, i.cut.next()
		return i.plan(x, last, room, backfilled)
	}
	oldest, _ := x.span(last)
	first := max(oldest, i.read-overlap+1)
	end := i.cut.end
	if end == 0 {
		end = min(last, first+i.steps(x, room)-1)
	}
	query := x.query(names, first, max(first, end))
	query.Counted = usage.StepEnd(i.read, x.settings.QueryStep)
	return query
}

// steps returns how many steps one query covers, at least leastNewest. It is limited by the memory of an answer and by
// the spans that the source has answered.
func (i *increments) steps(x *index, room int64) int64 {
	var all []*track
	x.each(func(_ string, _ wish, track *track) { all = append(all, track) })
	most := cmp.Or(i.cut.steps, maxChunk)
	return max(leastNewest, min(most, room/containersOf(all)))
}

// leastNewest is the fewest steps of a query: with fewer, a query would only repeat the overlap.
const leastNewest = overlap + 1

// names returns the namespaces to query next, in alphabetical order. Namespaces whose last step was too large come
// last, each by itself.
func (i *increments) names(x *index) (names []string) {
	var refused []string
	for _, name := range slices.Sorted(maps.Keys(x.namespaces)) {
		switch {
		case i.cut.done[name]:
		case x.namespaces[name].refused != nil:
			refused = append(refused, name)
		default:
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return refused[:min(1, len(refused))]
	}
	if i.cut.names > 0 && len(names) > i.cut.names {
		names = names[:i.cut.names]
	}
	return names
}

// refuse limits the next query after a rejection: first to half of the steps, then to half of the namespaces. A single
// namespace that is still too large is skipped in this span, so that the others continue. It returns false if no query
// of the span was answered. Then the server may have a problem, and the caller records a failure.
func (i *increments) refuse(x *index, query usage.Query, err error, now time.Time) bool {
	switch {
	case query.Steps() > leastNewest:
		i.cut.steps = max(leastNewest, query.Steps()/2)
		i.cut.end, i.cut.halved = 0, true
		return true
	case len(query.Namespaces) > 1:
		i.cut.names, i.cut.halved = len(query.Namespaces)/2, true
		return true
	}
	name := query.Namespaces[0]
	i.cut.refused = append(i.cut.refused, name)
	if n := x.namespaces[name]; n != nil {
		n.refused = err
	}
	others := i.cut.answered
	i.cover(x, query, usage.StepOf(query.End, query.Step), false, now)
	return others
}

// cover records which namespaces have been read up to a step. When all are read, the span is done. If no namespace was
// answered, the server has a problem, not a namespace.
func (i *increments) cover(x *index, query usage.Query, last int64, answered bool, now time.Time) {
	if i.cut.done == nil {
		i.cut.done = map[string]bool{}
	}
	for _, name := range query.Namespaces {
		i.cut.done[name] = true
		if n := x.namespaces[name]; n != nil && answered {
			n.answered(i.read, now)
		}
	}
	i.cut.end, i.cut.answered = last, i.cut.answered || answered
	if len(i.names(x)) > 0 {
		return
	}
	if !i.cut.answered {
		i.mending.lack(usage.StepOf(query.Start, query.Step))
	} else {
		for _, name := range i.cut.refused {
			if n := x.namespaces[name]; n != nil {
				n.lacks = true
			}
		}
	}
	i.read = max(i.read, last)
	i.cut = i.cut.next()
}

// mend remembers partial answers about new steps. After a complete answer it schedules these steps, and rejected ones,
// to be read again: at most once an hour, with a growing backoff while that does not help.
func (i *increments) mend(x *index, first int64, partial bool, now time.Time) {
	m := &i.mending
	switch {
	case partial:
		m.lack(first)
		m.whole = time.Time{}
	case m.partial != 0 && i.cut.end == 0 && (!now.Before(m.at) || m.isWhole(now)):
		m.times++
		if !m.helpless {
			m.times = 0
		}
		reach := int64(partialReach / x.settings.QueryStep)
		m.upTo, m.helpless = i.read, false
		i.read = min(i.read, max(m.partial+overlap-1, i.read-reach))
		m.partial, m.at = 0, now.Add(backoff.Wait(partialPause, mostPartialPause, m.times+1))
		x.each(func(_ string, _ wish, track *track) {
			if track.partial { // its backoff is over: the source gives complete answers again
				track.again = now
			}
		})
	}
}

// mending schedules the repetition of new steps with partial answers.
type mending struct {
	// partial is the first step with a partial answer; 0: all answers were complete. It is read again after a complete
	// answer, but not before the time at.
	partial int64
	at      time.Time
	// times counts consecutive repetitions that did not help; each doubles the backoff. helpless means that the last
	// repetition, of the steps before upTo, was partial again.
	times    int
	upTo     int64
	helpless bool
	// whole is when answers about new steps became complete; zero: they are not complete.
	whole time.Time
}

// lack records that data is missing from the step first on. If the last repetition covered the step, it did not help,
// and the next backoff is longer.
func (m *mending) lack(first int64) {
	m.partial = cmp.Or(m.partial, first)
	m.helpless = m.helpless || first < m.upTo
}

// calmFor is how long a source must give complete answers before it counts as recovered.
const calmFor = 30 * time.Minute

// isWhole reports whether the source has given complete answers for calmFor.
func (m *mending) isWhole(now time.Time) bool {
	if m.whole.IsZero() {
		m.whole = now
	}
	return now.Sub(m.whole) >= calmFor
}
