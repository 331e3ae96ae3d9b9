package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"attune.io/attune/internal/backoff"
	"attune.io/attune/internal/workload"
	"attune.io/attune/usage"
)

// increments is how far a source has been read forward, step by step as time passes, for all workloads at once. A span of
// steps is asked for, with overlap steps before it again; it may take several questions, each about some of the namespaces.
// Once all of them have been asked about, read moves to its end. Where the source finds a question too much, it is cut by half
// of its steps, and then by half of its namespaces; one that is too much by itself is left out, and read again later (lacks).
type increments struct {
	// read is the newest step that has been read for every covered track; 0: none.
	read    int64
	cut     incrementCut
	mending mending
}

// incrementCut says how a question about what is new is cut, when all of it is too much, and how far that question is.
type incrementCut struct {
	// steps and names are the most steps and namespaces that one query asks for; 0: any number. Both grow again
	// after a span that was answered without a cut.
	steps int64
	names int
	// halved: something of the span was too much.
	halved bool
	// end is the last step of the span that is being read; 0: there is none. done holds the namespaces of the span
	// that have been asked about.
	end  int64
	done map[string]bool
	// refused are the namespaces of the span that were too much by themselves. answered is true once some
	// namespace of the span was answered.
	refused  []string
	answered bool
}

// next span: as the last one, and twice as much where nothing of that was too much.
func (c incrementCut) next() incrementCut {
	if c.halved {
		return incrementCut{steps: c.steps, names: c.names}
	}
	return incrementCut{steps: min(2*c.steps, maxChunk), names: 2 * c.names}
}

// plan asks for what is new in all namespaces, or for a part of it where all was too much; nil: nothing is. room is how many
// values an answer may have. backfilled: the past has been asked for.
func (i *increments) plan(x *index, last, room int64, backfilled bool) *usage.Query {
	if i.read == 0 && backfilled {
		i.read = last - 1 // The past comes first, where it comes.
	}
	if i.read == 0 || i.read >= last || len(x.namespaces) == 0 {
		// What was too much may have been so for a moment only.
		i.cut = incrementCut{}
		return nil
	}
	names := i.names(x)
	if len(names) == 0 { // those that were left of a span are not wanted any more
		i.read, i.cut = i.cut.end, i.cut.next()
		return i.plan(x, last, room, backfilled)
	}
	oldest, _ := x.span(last)
	first := max(oldest, i.read-overlap+1)
	end := i.cut.end
	if end == 0 {
		end = min(last, first+i.steps(x, room)-1)
	}
	return x.query(names, first, max(first, end))
}

// steps returns how many steps of all namespaces one query asks for: no more than the answer has memory for, and
// no more than the source has answered before. It is leastNewest at least.
func (i *increments) steps(x *index, room int64) int64 {
	var all []*track
	x.each(func(_ string, _ workload.KindName, track *track) { all = append(all, track) })
	most := cmp.Or(i.cut.steps, maxChunk)
	return max(leastNewest, min(most, room/containersOf(all)))
}

// leastNewest steps are asked for at once: with fewer, nothing would be new beside what is read again.
const leastNewest = overlap + 1

// names are the namespaces to ask for next, in alphabetical order. Those of which the last step was too much come
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

// refuse cuts the next query after one that was too much: first by half of its steps, then by half of its
// namespaces. A single namespace that is still too much is left out of this span, so that the others go on. It
// returns false where nothing of the span has been answered: then the server may be in trouble, and the caller
// records a failure.
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

// cover notes which namespaces have been read up to a step; when all have, the span has been read. Where nothing was
// answered of any, it is not a namespace that is too much, but the server that is in trouble.
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

// mend remembers what was new and answered in part, and has it and what was too much to be answered read again once an
// answer is whole: at most once an hour, and less and less often while that is no help.
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
		x.each(func(_ string, _ workload.KindName, track *track) {
			if track.partial { // its pause is over: the source gives whole answers again
				track.again = now
			}
		})
	}
}

// mending is what is read again of what was new and answered in part.
type mending struct {
	// partial is the first step of what was answered in part; 0: all was answered in whole. It is read again once an answer
	// is whole, but not before the time at.
	partial int64
	at      time.Time
	// times in a row that this was no help, each of which doubles the pause: helpless, because of what was read again last,
	// the steps before upTo, something was missing again.
	times    int
	upTo     int64
	helpless bool
	// whole is since when what is new was answered in whole; zero: it is not.
	whole time.Time
}

// lack records that something is missing from the step first on. Where the step was among those that were read
// again last, that repetition was of no help, and the next pause is longer.
func (m *mending) lack(first int64) {
	if m.partial == 0 {
		m.partial = first
	}
	m.helpless = m.helpless || first < m.upTo
}

// calmFor is how long a source answers in whole until it is believed to be well.
const calmFor = 30 * time.Minute

// isWhole: the source has answered in whole for a while.
func (m *mending) isWhole(now time.Time) bool {
	if m.whole.IsZero() {
		m.whole = now
	}
	return now.Sub(m.whole) >= calmFor
}
