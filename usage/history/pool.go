package history

import (
	"fmt"
	"slices"
	"time"

	"attune.io/attune/internal/backoff"
	"attune.io/attune/internal/workload"
	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// pool is what is known of one source: what is wanted of it, how far that has been read, and how it does. The store's mutex
// guards it. Steps of a track from track.from to increments.read have been read; those before it are the backfill's, those
// after it the increments'.
type pool struct {
	index
	connection
	increments increments
	backfill   backfill
	// slid is the newest step that any history's window has moved to.
	slid int64
	// seen is the latest time at which it was looked at.
	seen time.Time
}

func newPool(settings usage.SourceSettings, budget *budget) *pool {
	length := max(1, int64(settings.HistoryWindow/settings.QueryStep))
	return &pool{index: index{settings: settings, length: length, budget: budget, namespaces: map[string]*namespace{}}}
}

const (
	// overlap is how many steps are read again with what is new, for samples that came late.
	overlap = 2
	// maxChunk is the most steps that servers answer with.
	maxChunk = 11_000
	// partialPause is how long a past that was answered in part is left as it is, before it is read again: twice as long
	// each time, up to mostPartialPause.
	partialPause     = time.Hour
	mostPartialPause = 32 * time.Hour
	// partialReach is how far back what was new, and answered in part, is asked for again.
	partialReach = 24 * time.Hour
)

// plan holds what to ask a pool's source next. Both queries may be nil: then there is nothing to ask.
type plan struct {
	// newest is the query of the increments, past that of the backfill.
	newest, past *usage.Query
	// group is the tracks that past is about.
	group []*track
	// resolvers sort the answer by workload; nil where there is no query.
	resolvers map[string]*resolver
}

// plan decides at a time: what is new for every workload that has been read before, and the next piece of
// the past for those that need it. room is how many values an answer may have in memory.
func (p *pool) plan(now time.Time, room int64) plan {
	p.repeat(now)
	last := usage.StepOf(now, p.settings.QueryStep)
	p.setBack(last)
	plan := plan{newest: p.increments.plan(&p.index, last, room, p.backfill.turn > 0)}
	plan.past, plan.group = p.backfill.plan(&p.index, last, room, now)
	if plan.newest != nil || plan.past != nil {
		plan.resolvers = p.resolvers()
	}
	return plan
}

// follow corrects the times of the pool after the clock was set back by more than a minute. Without it a source
// that was to be retried at a time of the wrong clock would not be asked until that time has really come.
func (p *pool) follow(now time.Time) {
	before := p.seen
	if p.seen = now; before.Sub(now) <= time.Minute {
		return
	}
	sooner := func(at *time.Time, pause time.Duration) {
		if latest := now.Add(pause); at.After(latest) {
			*at = latest
		}
	}
	for _, at := range []*time.Time{&p.retryAt, &p.redialAt, &p.increments.mending.whole, &p.began, &p.state.LastSuccess} {
		sooner(at, 0)
	}
	sooner(&p.increments.mending.at, partialPause)
	for _, n := range p.namespaces {
		sooner(&n.rereadAt, partialPause)
	}
	p.each(func(_ string, _ workload.KindName, t *track) {
		sooner(&t.again, partialPause)
		if t.refusal != nil {
			sooner(&t.refusal.until, firstRest)
		}
	})
	p.backfill.cut = backfillCut{}
}

// setBack follows a clock that was ahead and was put right: what was asked for before it had come is read again, which is
// what comes after the newest value, and so is what had left the window by then.
func (p *pool) setBack(last int64) {
	if max(p.increments.read, p.slid) <= last {
		return
	}
	p.increments.cut, p.slid = incrementCut{}, last
	first, _ := p.span(last)
	known := last - min(p.length, int64(partialReach/p.settings.QueryStep))
	p.each(func(_ string, _ workload.KindName, track *track) {
		for _, of := range track.histories {
			track.from = max(track.from, of.cpu.first)
			of.setBack(first, last)
			of.restored = false // what a window that was ahead had no room for is taken again
			known = max(known, of.newest(known+1, last))
		}
		if track.from > last {
			track.from = uncovered
		}
	})
	p.increments.read = min(p.increments.read, known)
}

// covers says whether the whole past of a track has been read.
func (p *pool) covers(t *track) bool { return p.increments.read-t.from+1 >= p.length }

// cover notes what has been read. A track that was replaced meanwhile is not in the pool any more: this has no effect on it.
func (p *pool) cover(c *collector, query usage.Query, group []*track, partial bool, now time.Time) {
	if group == nil {
		p.increments.cover(&p.index, query, c.last, true, now)
		p.increments.mend(&p.index, c.first, partial, now)
	} else if p.increments.read == 0 {
		p.increments.read = c.last
	}
	p.backfill.grow(query.Steps())
	for _, track := range group {
		track.from = c.first
		track.answered(query.Steps())
		track.partial = track.partial || partial
		if partial && track.again.IsZero() {
			track.again = now.Add(backoff.Wait(partialPause, mostPartialPause, track.repeats+1))
		}
		if !track.partial && p.covers(track) {
			track.repeats, track.refusal = 0, nil
		}
	}
}

// keep merges an answer into the histories and moves every window to now. It adds the namespaces with new values
// to changed. The windows move first, so that a merge finds room for the newest steps.
func (p *pool) keep(c *collector, report usage.Report, now time.Time, changed map[string]bool) {
	first, last := p.span(usage.StepOf(now, p.settings.QueryStep))
	p.slid = max(p.slid, last)
	p.each(func(_ string, _ workload.KindName, track *track) {
		for _, of := range track.histories {
			of.slide(first, last)
		}
	})
	for name, gathered := range c.namespaces {
		n := p.namespaces[name]
		if n == nil {
			continue
		}
		m := merge{pool: p, namespace: n, first: c.first, last: last, most: c.query.Most, report: usage.Report{Partial: report.Partial}}
		if m.all(gathered) {
			changed[name] = true
		}
		n.lost = m.report.Dropped[usage.DropFull]
		report.Add(m.report)
	}
	p.succeed(report, now)
}

// restore fills the empty steps of a history from a checkpoint. It refuses a checkpoint whose step does not divide
// the source's step, because its values cannot be assigned to steps then.
func (p *pool) restore(h *history, past codec.Checkpoint, now time.Time) error {
	step := p.settings.QueryStep
	if step%past.Step != 0 {
		return fmt.Errorf("the checkpoint of a history in steps of %s is of no use for steps of %s", past.Step, step)
	}
	first, last := p.span(usage.StepOf(now, step))
	p.slid = max(p.slid, last)
	h.slide(first, last)
	filled := fill(&h.cpu, past.CPU, past, step) + fill(&h.memory, past.Memory, past, step)
	if len(past.Peak) > 0 {
		filled += fill(h.peaks(), past.Peak, past, step)
	}
	if filled > 0 { // not a checkpoint that this process wrote of what it knows
		h.version++
		p.resumed = true
	}
	return nil
}

// connection holds how a source is reached, and whether it answers. Store.mutex guards it; the read itself runs
// without.
type connection struct {
	// source is nil before the first read, after a failure, and from redialAt on.
	source   usage.Source
	redialAt time.Time
	state    State
	// saidAt is when what state says of a failure was said first, warnedAt the same of warnings.
	saidAt, warnedAt time.Time
	// began is when the source answered first; resumed: a history was restored.
	began   time.Time
	resumed bool
	// failures counts the failures in a row. retryAt is when the source is asked again; zero: at the next refresh.
	failures int
	retryAt  time.Time
	// turn is the number of the last question to the source, of Store.turn. The source that was asked least
	// recently has the lowest one.
	turn int64
}

// calm is how long what is said of a source stays as it is while it goes on to fail, or to complain: texts differ in
// addresses, nodes and counts, and each change is a write to the status of every policy of the source.
const calm = 5 * time.Minute

// saidBefore: something was said a moment ago, by a clock that has not been put back since.
func saidBefore(at, now time.Time) bool { return !now.Before(at) && now.Sub(at) < calm }

// fail keeps why a read failed. The source is made anew next time: perhaps a secret has changed.
func (c *connection) fail(err error, now time.Time) {
	if c.state.Err == nil || !saidBefore(c.saidAt, now) {
		c.state.Err, c.saidAt = err, now
	}
	c.source = nil
	c.failures++
	c.retryAt = now.Add(backoff.Wait(firstPause, mostPause, c.failures-2))
}

// failure is what the last failure says; empty while the source answers.
func (c *connection) failure() string {
	if c.state.Err == nil {
		return ""
	}
	return c.state.Err.Error()
}

const (
	// firstPause is how long a source that has failed three times is left alone: twice as long after each further failure, up
	// to mostPause.
	firstPause = time.Minute
	mostPause  = 5 * time.Minute
)

// succeed keeps that a read was answered, and the report of it.
func (c *connection) succeed(report usage.Report, now time.Time) {
	c.state.Err = nil
	c.failures, c.retryAt = 0, time.Time{}
	if c.began.IsZero() {
		c.began = now
	}
	c.state.LastSuccess = now
	said := c.state.Last.Warnings
	c.state.Last = report
	switch {
	case len(report.Warnings) == 0: // that it is over is said at once
	case saidBefore(c.warnedAt, now):
		c.state.Last.Warnings = said
	case !slices.Equal(said, report.Warnings):
		c.warnedAt = now
	}
}

// settleGrace is what the first answers may be late by, beside the steps that they are about.
const settleGrace = 2 * time.Minute

// settled is when the newest steps of what was restored must have been read: until then they may only be
// late.
func (c *connection) settled(step time.Duration) time.Time {
	if !c.resumed || c.began.IsZero() {
		return time.Time{}
	}
	return c.began.Add(2*step + settleGrace)
}
