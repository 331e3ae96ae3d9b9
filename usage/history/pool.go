package history

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"attune.io/attune/internal/backoff"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// pool has the interests in one source, the read progress, and the state of the source. Store.mutex guards it. Steps of
// a track from track.from to increments.read have been read. The backfill reads older steps, the increments newer ones.
type pool struct {
	index
	connection
	increments increments
	backfill   backfill
	fleets     fleets
	// slid is the newest step that any history's window has moved to.
	slid int64
	// seen is the latest time at which the pool was refreshed.
	seen    time.Time
	running running
}

// running is what decides when the running step is read.
type running struct {
	// heard is the newest step with a sample of any container, indexed by resource; 0: none has one. lookedAt is when the
	// running step was last read.
	heard    [2]int64
	lookedAt time.Time
}

func newPool(settings usage.SourceSettings, scraped time.Duration, budget *budget) *pool {
	length := max(1, int64(settings.HistoryWindow/settings.QueryStep))
	return &pool{fleets: newFleets(settings, scraped), index: index{settings: settings, length: length, budget: budget, namespaces: map[string]*namespace{}}}
}

const (
	// overlap is how many steps are read again with new ones, for samples that came late.
	overlap = 2
	// maxChunk is the most steps that servers answer with.
	maxChunk = 11_000
	// partialPause is the backoff before a partially answered past is read again. It doubles each time, up to
	// mostPartialPause.
	partialPause     = time.Hour
	mostPartialPause = 32 * time.Hour
	// partialReach is how far back new steps with partial answers are read again.
	partialReach = 24 * time.Hour
)

// plan has the next queries to a pool's source. Both may be nil if nothing is due.
type plan struct {
	// newest is the query of the increments, past the query of the backfill, running the query of the running step.
	newest, past, running *usage.Query
	// group has the tracks of the query past.
	group []*track
	// fleets is the query about the pods of workloads that HPAs scale.
	fleets *fleetPlan
	// resolvers sort the answer by workload; nil without a query.
	resolvers map[string]*resolver
}

// plan returns the query for new steps of every workload that was read before, the query for the next piece of the past,
// and the query of the running step. room is how many values an answer may have in memory.
func (p *pool) plan(now time.Time, room int64) plan {
	p.repeat(now)
	last := usage.StepOf(now, p.settings.QueryStep)
	p.setBack(last)
	plan := plan{newest: p.increments.plan(&p.index, last, room, p.backfill.turn > 0)}
	plan.past, plan.group = p.backfill.plan(&p.index, last, room, now)
	plan.running = p.awaited(last, now)
	plan.fleets = p.fleets.plan(&p.index, room, now)
	if !plan.empty() {
		plan.resolvers = p.resolvers()
	}
	return plan
}

// empty reports whether nothing is due.
func (p *plan) empty() bool {
	return p.newest == nil && p.past == nil && p.running == nil && p.fleets == nil
}

// lookAgain is the least time between two reads of the running step.
const lookAgain = 30 * time.Second

// mostUnasked is the most steps without samples in which the running step is read although no policy waits: after
// them, a policy waits for each workload that still runs.
const mostUnasked = 12

// awaited returns the query of the running step, at a time, about the workloads that a policy waits for: about all if the
// source has had no samples of a resource for two steps, up to mostUnasked steps if no policy waits. It returns nil if
// nothing is awaited. A history gets a step only when it has ended, which may be two steps after an outage.
func (p *pool) awaited(last int64, now time.Time) *usage.Query {
	if now.Sub(p.running.lookedAt).Abs() < lookAgain {
		return nil
	}
	silent, all := false, false
	for _, newest := range p.running.heard {
		silent = silent || newest > 0 && last-newest >= 2
		all = all || newest > 0 && last-newest >= 2 && last-newest <= mostUnasked
	}
	p.each(func(_ string, _ wish, track *track) { all = all || silent && track.awaited })
	names, pods := sets.New[string](), sets.New[string]()
	p.each(func(namespace string, of wish, track *track) {
		if all || track.awaited {
			names.Insert(namespace)
			pods.Insert(of.prefixes()...)
		}
	})
	if len(names) == 0 {
		return nil
	}
	query := p.query(sets.List(names), last, last)
	at := now.Truncate(time.Second)
	query.Start, query.End, query.Counted, query.Running = at, at, at, true
	if !all && len(pods) <= maxPrefixes {
		query.PodPrefixes = sets.List(pods)
	}
	return query
}

// hear records the newest step of an answer with a sample of each resource.
func (p *pool) hear(c *collector) {
	c.each(func(a *answer) {
		for r, values := range [2][]float64{recommender.CPU: a.cpu, recommender.Memory: a.memory} {
			for i := len(values) - 1; i >= 0 && c.first+int64(i) > p.running.heard[r]; i-- {
				if !math.IsNaN(values[i]) {
					p.running.heard[r] = c.first + int64(i)
				}
			}
		}
	})
}

// see records which containers were measured in the running step. A workload is awaited until one of its containers has CPU
// and memory. It adds the namespaces with newer data to changed.
func (p *pool) see(c *collector, now time.Time, changed map[string]bool) {
	for name, gathered := range c.namespaces {
		n := p.namespaces[name]
		for number := 0; n != nil && number < len(gathered.answers); number++ {
			track := n.track(gathered.wishes[number].workload)
			for a := gathered.answers[number]; a != nil && track != nil; a = a.next {
				of := track.history(a.container)
				if of == nil {
					continue
				}
				version := of.version
				// Among the few containers of some workloads, dropIdle cannot tell CPU of 0 from CPU that is not measured.
				unsure := len(c.query.PodPrefixes) > 0 && len(a.cpu) > 0 && a.idle(0)
				cpu := !unsure && of.see(recommender.CPU, a.cpu, now, c.query.Step)
				memory := of.see(recommender.Memory, a.memory, now, c.query.Step)
				track.awaited = track.awaited && !(cpu && memory)
				changed[name] = changed[name] || of.version != version
			}
		}
	}
}

// follow corrects the times of the pool after the clock was set back by more than a minute. Otherwise a source with a
// retry time of the wrong clock would not be read until that time.
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
	for r := range p.running.heard {
		p.running.heard[r] = min(p.running.heard[r], usage.StepOf(now, p.settings.QueryStep))
	}
	sooner(&p.increments.mending.at, partialPause)
	for _, n := range p.namespaces {
		sooner(&n.rereadAt, partialPause)
	}
	p.each(func(_ string, _ wish, t *track) {
		for _, of := range t.histories {
			for r := range of.seen {
				of.seen[r] = min(of.seen[r], uint32(now.Unix()))
			}
		}
		sooner(&t.again, partialPause)
		if t.refusal != nil {
			sooner(&t.refusal.until, firstRest)
		}
	})
	p.backfill.cut = backfillCut{}
}

// setBack follows a clock that was ahead and was corrected. Steps read "from the future", after the newest value, are
// read again. Steps that had wrongly left the window are read again too.
func (p *pool) setBack(last int64) {
	if max(p.increments.read, p.slid) <= last {
		return
	}
	p.increments.cut, p.slid = incrementCut{}, last
	first, _ := p.span(last)
	known := last - min(p.length, int64(partialReach/p.settings.QueryStep))
	p.each(func(_ string, _ wish, track *track) {
		for _, of := range track.histories {
			track.from = max(track.from, of.cpu.first)
			of.setBack(first, last)
			of.restored = false // steps that had no room in the wrong window are restored again
			known = max(known, of.newest(known+1, last))
		}
		if track.from > last {
			track.from = uncovered
		}
	})
	p.increments.read = min(p.increments.read, known)
}

// covers reports whether the whole past of a track has been read.
func (p *pool) covers(t *track) bool { return p.increments.read-t.from+1 >= p.length }

// cover records the read steps. It has no effect on a track that was replaced during the read, because that track is
// not in the pool any more.
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

// keep merges an answer into the histories and moves every window to now. It adds the namespaces with new values to
// changed. The windows move first, so that the newest steps fit.
func (p *pool) keep(c *collector, report usage.Report, now time.Time, changed map[string]bool) {
	first, last := p.span(usage.StepOf(now, p.settings.QueryStep))
	p.slid = max(p.slid, last)
	p.each(func(_ string, _ wish, track *track) {
		for _, of := range track.histories {
			of.slide(first, last)
		}
	})
	for name, gathered := range c.namespaces {
		n := p.namespaces[name]
		if n == nil {
			continue
		}
		m := merge{pool: p, namespace: n, first: c.first, last: last, report: usage.Report{Partial: report.Lacks(name)}}
		if m.all(gathered) {
			changed[name] = true
		}
		n.lost = m.report.Dropped[usage.DropFull]
		report.Add(m.report)
	}
	p.succeed(report, now)
}

// restore fills the empty steps of a history from a checkpoint. It rejects a checkpoint whose step does not divide the
// source's step, because its values do not map to steps.
func (p *pool) restore(h *history, past codec.Checkpoint, most usage.Most, now time.Time) error {
	step := p.settings.QueryStep
	if step%past.Step != 0 {
		return fmt.Errorf("a checkpoint with queryStep %s cannot be used for queryStep %s", past.Step, step)
	}
	first, last := p.span(usage.StepOf(now, step))
	p.slid = max(p.slid, last)
	h.slide(first, last)
	// The values may be older than the checks of samples.
	drop(past.CPU, most, false)
	drop(past.Peak, most, false)
	drop(past.Memory, most, true)
	filled := fill(&h.cpu, past.CPU, past, step) + fill(&h.memory, past.Memory, past, step)
	if len(past.Peak) > 0 {
		filled += fill(h.peaks(), past.Peak, past, step)
	}
	if most.DropOf(float64(past.Start), false) == "" {
		h.starts.raise(past.Start, usage.StepHolding(usage.StepEnd(past.First+int64(max(len(past.CPU), len(past.Memory)))-1, past.Step), step), p.length)
	}
	if filled > 0 { // not a checkpoint that this process wrote from the same values
		h.version++
		p.resumed = true
	}
	return nil
}

// connection is the connection to a source and its state. Store.mutex guards it; the read itself runs without the lock.
type connection struct {
	// source is nil before the first read, after a failure, and from redialAt on.
	source   usage.Source
	redialAt time.Time
	state    State
	// saidAt is when the reported failure was recorded, warnedAt when the reported warnings were recorded.
	saidAt, warnedAt time.Time
	// began is when the source first answered. resumed: a history was restored.
	began   time.Time
	resumed bool
	// failures counts consecutive failures. retryAt is when the source is read again; zero: at the next refresh.
	failures int
	retryAt  time.Time
	// turn is the value of Store.turn at the last query to the source. The source that was read least recently has the
	// lowest one.
	turn int64
}

// calm is how long a reported failure or warning stays unchanged while the problem continues. Texts differ in
// addresses, nodes and counts, and each change writes the status of every policy of the source.
const calm = 5 * time.Minute

// saidBefore reports whether at is less than calm ago. A time after now, from a clock that was set back, does not
// count.
func saidBefore(at, now time.Time) bool { return !now.Before(at) && now.Sub(at) < calm }

// fail records why a read failed. The source is dialled again next time, because a Secret may have changed.
func (c *connection) fail(err error, now time.Time) {
	if c.state.Err == nil || !saidBefore(c.saidAt, now) {
		c.state.Err, c.saidAt = err, now
	}
	c.source = nil
	c.failures++
	if c.failures > 2 {
		c.retryAt = now.Add(retryAfter)
	}
}

// failure returns the text of the last failure; empty while the source answers.
func (c *connection) failure() string {
	if c.state.Err == nil {
		return ""
	}
	return c.state.Err.Error()
}

// retryAfter is the backoff of a source after three failures. It is less than the default interval of a refresh, so that
// usage is known soon after the source answers again.
const retryAfter = 50 * time.Second

// succeed records an answer and its report.
func (c *connection) succeed(report usage.Report, now time.Time) {
	c.state.Err = nil
	c.failures, c.retryAt = 0, time.Time{}
	if c.began.IsZero() {
		c.began = now
	}
	c.state.LastSuccess = now
	said := c.state.Last
	c.state.Last = report
	switch {
	case len(report.Warnings)+len(report.Missing) == 0: // the end of warnings is reported at once
	case saidBefore(c.warnedAt, now):
		c.state.Last.Warnings, c.state.Last.Missing = said.Warnings, said.Missing
	case !slices.Equal(said.Warnings, report.Warnings) || !maps.Equal(said.Missing, report.Missing):
		c.warnedAt = now
	}
}

// settleGrace is how late the first answers may be, in addition to their steps.
const settleGrace = 2 * time.Minute

// settled is when the newest steps of restored histories must have been read. Until then they may only be late.
func (c *connection) settled(step time.Duration) time.Time {
	if !c.resumed || c.began.IsZero() {
		return time.Time{}
	}
	return c.began.Add(2*step + settleGrace)
}
