package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"attune.io/attune/usage"
)

const (
	// defaultParallel bounds how many reads start at the same time.
	defaultParallel = 8
	// answerValues bounds the memory of concurrent answers: 8 bytes per value, three measures. The sources share it.
	answerValues = 2 << 20
	// redialAfter is how long a source is used before it is dialled again: its Secrets may have changed, or may now be
	// meant for another server.
	redialAfter = time.Hour
	// redialTenant is the same for a source with Secrets of a namespace. Its owner ends the permission to use them with
	// an annotation. Clients for observed pods last as long.
	redialTenant = 5 * time.Minute
)

// Refresh queries each source once for new steps and once for a piece of the past, and stores the answers. If usage is
// awaited (see Await), it also queries the step that has not ended yet. Sources that answered last time come first. It
// returns true if more of the past is left and its source answers. The caller then calls it again soon.
//
// A failure is stored in the State of its source. The source is queried again at the next refresh, and from the third
// consecutive failure on after a backoff (retryAfter). Refresh blocks while another refresh runs, and for at most
// Options.Patience. The read of a slower source continues in the background. The source gets no other query until then,
// and delays no other source.
func (s *Store) Refresh(ctx context.Context, now time.Time) (more bool) {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	over, cancel := context.WithTimeout(context.Background(), s.options.Patience)
	defer cancel()
	round := &round{store: s, ctx: ctx, now: now, waiting: s.turns(now), asked: map[usage.Digest]*refresh{}, answers: make(chan *refresh)}
	round.announce(round.overdue())
	for round.begin(); len(round.asked) > 0; round.begin() {
		select {
		case r := <-round.answers:
			delete(round.asked, r.digest)
			more = more || r.more
			round.announce(r.changed)
		case <-over.Done():
			round.leave()
			round.announce(round.overdue())
			return more
		}
	}
	return more
}

// announce calls Changed for the namespaces, in alphabetical order.
func (o *round) announce(changed map[string]bool) {
	o.store.announcing.Lock()
	defer o.store.announcing.Unlock()
	for _, namespace := range slices.Sorted(maps.Keys(changed)) {
		o.store.options.Changed(namespace)
	}
}

// turns returns the sources to query: sources that answered last time first, then by the time of their last query.
func (s *Store) turns(now time.Time) []usage.Digest {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var turns []usage.Digest
	for digest, pool := range s.pools {
		if !s.asking[digest] {
			pool.follow(now)
		}
		if !s.asking[digest] && !now.Before(pool.retryAt) {
			turns = append(turns, digest)
		}
	}
	slices.SortFunc(turns, func(a, b usage.Digest) int {
		x, y := s.pools[a], s.pools[b]
		return cmp.Or(cmp.Compare(min(x.failures, 1), min(y.failures, 1)), cmp.Compare(x.turn, y.turn), cmp.Compare(a, b))
	})
	return turns
}

// round is one refresh of all sources. Only the goroutine of Refresh uses its fields; the reads send their results
// through answers.
type round struct {
	store *Store
	ctx   context.Context
	now   time.Time
	// waiting has the sources without a query so far, in order.
	waiting []usage.Digest
	// asked has the running reads, at most Options.Parallel.
	asked   map[usage.Digest]*refresh
	answers chan *refresh
}

// begin starts as many reads as may run in parallel.
func (o *round) begin() {
	for len(o.waiting) > 0 && len(o.asked) < o.store.options.Parallel {
		r := &refresh{store: o.store, digest: o.waiting[0], now: o.now, changed: map[string]bool{}}
		o.waiting = o.waiting[1:]
		o.asked[r.digest] = r
		o.ask(r.digest, true)
		go func() {
			r.more = r.run(o.ctx)
			o.ask(r.digest, false)
			o.answers <- r
		}()
	}
}

// leave lets running reads finish after the round has ended. A goroutine receives their answers and announces the
// changes; without it the reads would block forever when they send.
func (o *round) leave() {
	left := len(o.asked)
	go func() {
		for range left {
			o.announce((<-o.answers).changed)
		}
	}()
}

// overdue records a failure for sources that have not answered for so long that data is missing, and returns the
// namespaces that use them. A slow source without missing data is not reported.
func (o *round) overdue() map[string]bool {
	changed := map[string]bool{}
	o.store.mutex.RLock()
	asking := slices.Collect(maps.Keys(o.store.asking))
	o.store.mutex.RUnlock()
	for _, digest := range asking {
		silent := refresh{store: o.store, digest: digest, now: o.now, changed: changed}
		silent.commit(func(p *pool) {
			if p.state.Err == nil && o.now.Sub(p.state.LastSuccess) > 2*p.settings.QueryStep {
				p.fail(fmt.Errorf("no answer within %s", o.store.options.Patience), o.now)
			}
		})
	}
	return changed
}

// ask records whether a source is being queried.
func (o *round) ask(digest usage.Digest, asking bool) {
	o.store.mutex.Lock()
	defer o.store.mutex.Unlock()
	if !asking {
		delete(o.store.asking, digest)
		return
	}
	o.store.asking[digest] = true
	o.store.turn++
	if pool := o.store.pools[digest]; pool != nil {
		pool.turn = o.store.turn
	}
}

// refresh is the part of a round that queries one source.
type refresh struct {
	store   *Store
	digest  usage.Digest
	now     time.Time
	changed map[string]bool
	// more of the past can be read at once. refused: the source rejected a query for new steps as too large.
	more, refused bool
}

// run returns whether more of the past can be read at once.
func (r *refresh) run(ctx context.Context) bool {
	plan, settings, source := r.begin()
	if plan.empty() {
		return false
	}
	if source == nil {
		if source = r.dial(settings); source == nil {
			return false
		}
	}
	if plan.newest != nil && !r.read(ctx, source, plan, *plan.newest, nil) ||
		plan.past != nil && !r.read(ctx, source, plan, *plan.past, plan.group) ||
		plan.fleets != nil && !r.refused && !r.readFleets(ctx, source, plan) {
		return false
	}
	plan, _, _ = r.begin()
	if plan.running != nil && !r.refused {
		r.see(ctx, source, plan)
	}
	// The past, or the rest of new steps after a rejection.
	return plan.past != nil || plan.newest != nil || plan.fleets != nil
}

// dial returns the source, or nil after a failure.
func (r *refresh) dial(settings usage.SourceSettings) usage.Source {
	source, err := r.store.options.Dial(settings)
	if err != nil {
		r.commit(func(p *pool) { p.fail(err, r.now) })
		return nil
	}
	lasts := redialAfter
	if settings.Namespace != "" {
		lasts = redialTenant
	}
	r.commit(func(p *pool) { p.source, p.redialAt = source, r.now.Add(lasts) })
	return source
}

// begin plans the next queries; if the source is nil, the caller dials it.
func (r *refresh) begin() (plan, usage.SourceSettings, usage.Source) {
	r.store.mutex.Lock()
	defer r.store.mutex.Unlock()
	pool := r.store.pools[r.digest]
	if pool == nil {
		return plan{}, usage.SourceSettings{}, nil
	}
	if !r.now.Before(pool.redialAt) {
		pool.source = nil
	}
	return pool.plan(r.now, answerValues/int64(min(len(r.store.pools), r.store.options.Parallel))), pool.settings, pool.source
}

// commit changes the pool if it still exists. If the source's failure starts, ends or changes, all namespaces that use
// it are marked as changed.
func (r *refresh) commit(change func(*pool)) {
	r.store.mutex.Lock()
	defer r.store.mutex.Unlock()
	pool := r.store.pools[r.digest]
	if pool == nil {
		return
	}
	before := pool.failure()
	if change(pool); pool.failure() == before {
		return
	}
	for namespace := range pool.namespaces {
		r.changed[namespace] = true
	}
}

// see reads the running step. Its answer is not stored, because the step gets more samples. A failure is not recorded: the
// next query for new steps fails as well.
func (r *refresh) see(ctx context.Context, source usage.Source, plan plan) {
	step := *plan.running
	step.Start = usage.StepEnd(usage.StepHolding(step.End, step.Step), step.Step)
	step.End = step.Start
	collector := newCollector(plan.resolvers, step)
	_, err := source.Read(ctx, *plan.running, collector.take)
	r.commit(func(p *pool) {
		p.running.lookedAt = r.now
		if err == nil {
			collector.dropIdle()
			p.see(collector, r.now, r.changed)
		}
	})
}

// read runs one query and stores the answer; group is nil for new steps. The source is queried without the lock, so
// interests may change meanwhile; data that is not wanted any more is dropped. It returns whether to continue.
func (r *refresh) read(ctx context.Context, source usage.Source, plan plan, query usage.Query, group []*track) bool {
	collector := newCollector(plan.resolvers, query)
	dropped := collector.query.CountDropped()
	report, err := source.Read(ctx, query, collector.take)
	ok := err == nil
	r.commit(func(p *pool) {
		if group != nil {
			p.backfill.turnOf(&p.index, query, group)
		}
		switch {
		case err == nil:
			collector.dropIdle()
			r.store.options.Dropped(p.settings, dropped)
			report.Add(collector.report)
			p.keep(collector, report, r.now, r.changed)
			p.hear(collector)
			p.cover(collector, query, group, slices.ContainsFunc(query.Namespaces, report.Lacks), r.now)
		case ctx.Err() != nil:
			// The caller's context has ended; the source did not fail.
		case errors.Is(err, usage.ErrTooMuch) && group != nil:
			if ok = p.backfill.refuse(query, group, err, r.now); !ok && p.began.IsZero() {
				p.fail(err, r.now) // no query was ever answered: the source has a problem
			}
		case errors.Is(err, usage.ErrTooMuch) && p.increments.refuse(&p.index, query, err, r.now):
			ok, r.refused = true, true
		default:
			p.fail(err, r.now)
		}
	})
	return ok
}
