package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"attune.io/attune/internal/workload"
	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// maxParallel bounds how many sources are begun to be asked at the same time.
const maxParallel = 8

// Refresh asks each source once for what is new and once for a piece of the past, and keeps the answers. Those that answer
// are asked first. It returns whether more of the past is left and its source answers: then call it again soon. What fails
// is in the State, and is tried again at the next refresh, from the third time on after a pause. It blocks while another
// refresh runs, and for as long as sources may take (Options.Patience): one that takes longer goes on by itself, is asked
// nothing else meanwhile, and delays nobody.
func (s *Store) Refresh(ctx context.Context, now time.Time) (more bool) {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	over, cancel := context.WithTimeout(context.Background(), s.options.Patience)
	defer cancel()
	round := round{store: s, ctx: ctx, now: now, waiting: s.turns(now), answers: make(chan *refresh)}
	s.announce(s.overdue(now))
	for round.begin(); len(round.asked) > 0; round.begin() {
		select {
		case r := <-round.answers:
			delete(round.asked, r.digest)
			more = more || r.more
			s.announce(r.changed)
		case <-over.Done():
			round.leave()
			s.announce(s.overdue(now))
			return more
		}
	}
	return more
}

// announce which namespaces have news, in alphabetical order.
func (s *Store) announce(changed map[string]bool) {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	for _, namespace := range slices.Sorted(maps.Keys(changed)) {
		s.options.Changed(namespace)
	}
}

// turns are the sources to ask at a time: those that answered last come first, of the others those that were asked least
// lately.
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

// round is one refresh of all sources.
type round struct {
	store   *Store
	ctx     context.Context
	now     time.Time
	waiting []usage.Digest
	asked   map[usage.Digest]*refresh
	answers chan *refresh
}

// begin to ask as many as may be asked at once.
func (o *round) begin() {
	if o.asked == nil {
		o.asked = map[usage.Digest]*refresh{}
	}
	for len(o.waiting) > 0 && len(o.asked) < maxParallel {
		r := &refresh{store: o.store, digest: o.waiting[0], now: o.now, changed: map[string]bool{}}
		o.waiting = o.waiting[1:]
		o.asked[r.digest] = r
		o.store.ask(r.digest, true)
		go func() {
			before := r.complaint()
			r.more = r.run(o.ctx)
			r.noteTurn(before)
			o.store.ask(r.digest, false)
			o.answers <- r
		}()
	}
}

// leave those that have not answered to themselves: what they answer is announced when they do.
func (o *round) leave() {
	left := len(o.asked)
	go func() {
		for range left {
			o.store.announce((<-o.answers).changed)
		}
	}()
}

// overdue notes the sources that are being asked and have not answered for so long that data is missing by now, and
// returns the namespaces that want something of them. One that is only slow is not said to fail.
func (s *Store) overdue(now time.Time) map[string]bool {
	changed := map[string]bool{}
	s.mutex.RLock()
	asking := slices.Collect(maps.Keys(s.asking))
	s.mutex.RUnlock()
	for _, digest := range asking {
		silent := refresh{store: s, digest: digest, now: now, changed: changed}
		before := silent.complaint()
		silent.commit(func(p *pool) {
			if p.state.Err == nil && now.Sub(p.state.LastSuccess) > 2*p.settings.QueryStep {
				p.fail(fmt.Errorf("no answer within %s", s.options.Patience), now)
			}
		})
		silent.noteTurn(before)
	}
	return changed
}

// ask notes whether a source is being asked.
func (s *Store) ask(digest usage.Digest, asking bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !asking {
		delete(s.asking, digest)
		return
	}
	s.asking[digest] = true
	s.turn++
	if pool := s.pools[digest]; pool != nil {
		pool.turn = s.turn
	}
}

// refresh is that of one source.
type refresh struct {
	store   *Store
	digest  usage.Digest
	now     time.Time
	changed map[string]bool
	// more of the past can be read at once.
	more bool
}

// run returns whether more of the past can be read at once.
func (r *refresh) run(ctx context.Context) bool {
	plan, settings, source := r.begin()
	if plan.newest == nil && plan.past == nil {
		return false
	}
	if source == nil {
		var err error
		if source, err = r.store.options.Dial(settings); err != nil {
			r.commit(func(p *pool) { p.fail(err, r.now) })
			return false
		}
		r.commit(func(p *pool) { p.source, p.redialAt = source, r.now.Add(redialAfter) })
	}
	if plan.newest != nil && !r.read(ctx, source, plan, *plan.newest, nil) {
		return false
	}
	if plan.past != nil && !r.read(ctx, source, plan, *plan.past, plan.group) {
		return false
	}
	return r.behind()
}

// complaint is what the source's last failure says; empty while it answers.
func (r *refresh) complaint() string {
	r.store.mutex.RLock()
	defer r.store.mutex.RUnlock()
	if pool := r.store.pools[r.digest]; pool != nil && pool.state.Err != nil {
		return pool.state.Err.Error()
	}
	return ""
}

// noteTurn counts a source that fails now, answers again or says something else as news for everybody who
// wants something of it.
func (r *refresh) noteTurn(before string) {
	if r.complaint() == before {
		return
	}
	r.commit(func(p *pool) {
		for namespace := range p.namespaces {
			r.changed[namespace] = true
		}
	})
}

func (r *refresh) begin() (plan, usage.SourceSettings, usage.Source) {
	r.store.mutex.Lock()
	defer r.store.mutex.Unlock()
	pool := r.store.pools[r.digest]
	if pool == nil {
		return plan{}, usage.SourceSettings{}, nil
	}
	pool.scratch = scratchValues / int64(min(len(r.store.pools), maxParallel))
	if !r.now.Before(pool.redialAt) {
		pool.source = nil
	}
	return pool.plan(r.now), pool.settings, pool.source
}

// redialAfter is how long a source is used before it is made anew: its Secrets may have changed, or be meant for another
// server by now.
const redialAfter = time.Hour

// behind says whether something can be asked for at once: of the past, or of what is new where it was cut.
func (r *refresh) behind() bool {
	plan, _, _ := r.begin()
	return plan.past != nil || plan.newest != nil
}

// commit changes the pool, if it is still there.
func (r *refresh) commit(change func(*pool)) {
	r.store.mutex.Lock()
	defer r.store.mutex.Unlock()
	if pool := r.store.pools[r.digest]; pool != nil {
		change(pool)
	}
}

// read asks one query and keeps the answer; group is nil for what is new. It returns whether to go on.
func (r *refresh) read(ctx context.Context, source usage.Source, plan plan, query usage.Query, group []*track) bool {
	scratch := newCollector(plan.resolvers, query)
	report, err := source.Read(ctx, query, scratch.take)
	ok := err == nil
	r.commit(func(p *pool) {
		if group != nil {
			p.turnOf(query, group)
		}
		switch {
		case err == nil:
			report.Add(scratch.report)
			p.keep(scratch, report, r.now, r.changed)
			p.cover(scratch, query, group, report.Partial, r.now)
		case ctx.Err() != nil:
			// Nobody waits for the answer any more; nothing is wrong with the source.
		case errors.Is(err, usage.ErrTooMuch) && group != nil:
			if ok = p.cutPast(query, group, err, r.now); !ok && p.began.IsZero() {
				p.fail(err, r.now) // nothing has ever been answered: it is the source's trouble
			}
		case errors.Is(err, usage.ErrTooMuch) && p.cutNewest(query, err, r.now):
			ok = true
		default:
			p.fail(err, r.now)
		}
	})
	return ok
}

// turnOf a group: it was asked for now.
func (p *pool) turnOf(query usage.Query, group []*track) {
	p.pastTurn++
	for _, name := range query.Namespaces {
		if n := p.namespaces[name]; n != nil {
			n.asked = p.pastTurn
		}
	}
	for _, track := range group {
		track.asked = p.pastTurn
	}
}

// lack remembers that something is missing of what was new from a step on.
func (p *pool) lack(first int64) {
	if p.partial == 0 {
		p.partial = first
	}
	p.helpless = p.helpless || first < p.mended
}

// mend remembers what was new and answered in part, and has it and what was too much to be answered read again once an
// answer is whole: at most once an hour, and less and less often while that is no help.
func (p *pool) mend(first int64, partial bool, now time.Time) {
	switch {
	case partial:
		p.lack(first)
		p.whole = time.Time{}
	case p.partial != 0 && p.newest.end == 0 && (!now.Before(p.mendAt) || p.isWhole(now)):
		p.mends = min(p.mends+1, mostRepeats)
		if !p.helpless {
			p.mends = 0
		}
		reach := int64(partialReach / p.settings.QueryStep)
		p.mended, p.helpless = p.read, false
		p.read = min(p.read, max(p.partial+overlap-1, p.read-reach))
		p.partial, p.mendAt = 0, now.Add(partialPause<<p.mends)
		p.hurry(now)
	}
}

// calmFor is how long a source answers in whole until it is believed to be well.
const calmFor = 30 * time.Minute

// isWhole: the source has answered in whole for a while.
func (p *pool) isWhole(now time.Time) bool {
	if p.whole.IsZero() {
		p.whole = now
	}
	return now.Sub(p.whole) >= calmFor
}

// hurry reads again now what was answered in part of the past: the source answers in whole again.
func (p *pool) hurry(now time.Time) {
	p.each(func(_ string, _ workload.KindName, track *track) {
		if track.partial {
			track.again = now
		}
	})
}

// cutNewest asks for half as much of what is new from now on: of its steps, and then of its namespaces. What is too much
// by itself is left out for now, so that the others go on. It returns false where nothing has been answered yet: then it
// may be the server that is in trouble.
func (p *pool) cutNewest(query usage.Query, err error, now time.Time) bool {
	switch {
	case query.Steps() > leastNewest:
		p.newest.steps = max(leastNewest, query.Steps()/2)
		p.newest.end, p.newest.cut = 0, true
		return true
	case len(query.Namespaces) > 1:
		p.newest.names, p.newest.cut = len(query.Namespaces)/2, true
		return true
	}
	name := query.Namespaces[0]
	p.newest.refused = append(p.newest.refused, name)
	if n := p.namespaces[name]; n != nil {
		n.refused = err
	}
	others := p.newest.answered
	p.coverNewest(query, usage.StepOf(query.End, query.Step), false, now)
	return others
}

// coverNewest notes which namespaces have been read up to a step; when all have, the span has been read. Where nothing was
// answered of any, it is not a namespace that is too much, but the server that is in trouble.
func (p *pool) coverNewest(query usage.Query, last int64, answered bool, now time.Time) {
	if p.newest.done == nil {
		p.newest.done = map[string]bool{}
	}
	for _, name := range query.Namespaces {
		p.newest.done[name] = true
		if n := p.namespaces[name]; n != nil && answered {
			n.answered(p.read, now)
		}
	}
	p.newest.end, p.newest.answered = last, p.newest.answered || answered
	if len(p.newestNames()) > 0 {
		return
	}
	if !p.newest.answered {
		p.lack(usage.StepOf(query.Start, query.Step))
	} else {
		p.leaveOut(p.newest.refused)
	}
	p.read = max(p.read, last)
	p.newest = p.newest.next()
}

// leaveOut notes the namespaces of which something that was new is missing.
func (p *pool) leaveOut(names []string) {
	for _, name := range names {
		if n := p.namespaces[name]; n != nil {
			n.lacks = true
		}
	}
}

// answered: what was new of the namespace was not too much. What was before is read again, with all of its past up to
// what has been read, once an hour at most.
func (n *namespace) answered(read int64, now time.Time) {
	n.refused = nil
	if !n.lacks || now.Before(n.rereadAt) {
		return
	}
	n.lacks = false
	n.rereadAt = now.Add(partialPause)
	for _, track := range n.tracks {
		track.from = max(track.from, read+1)
	}
}

// cover notes what has been read. A track that was replaced meanwhile is not in the pool any more, and
// nobody sees this.
func (p *pool) cover(s *collector, query usage.Query, group []*track, partial bool, now time.Time) {
	if group == nil {
		p.coverNewest(query, s.last, true, now)
		p.mend(s.first, partial, now)
	} else if p.read == 0 {
		p.read = s.last
	}
	p.grow(query.Steps())
	for _, track := range group {
		track.from = s.first
		track.answer(query.Steps())
		track.partial = track.partial || partial
		if partial && track.again.IsZero() {
			track.again = now.Add(partialPause << min(track.repeats, mostRepeats))
		}
		if !track.partial && p.read-track.from+1 >= p.window {
			track.repeats, track.refusal = 0, nil
		}
	}
}

// keep puts an answer into the histories, and moves every window to now.
func (p *pool) keep(s *collector, report usage.Report, now time.Time, changed map[string]bool) {
	first, last := p.span(usage.StepOf(now, p.settings.QueryStep))
	p.slid = max(p.slid, last)
	p.each(func(_ string, _ workload.KindName, track *track) {
		for _, of := range track.histories {
			of.slide(first, last)
		}
	})
	for name, gathered := range s.namespaces {
		n := p.namespaces[name]
		if n == nil {
			continue
		}
		own := usage.Report{Partial: report.Partial}
		if p.keepAll(n, gathered, s.first, now, &own) {
			changed[name] = true
		}
		n.lost = own.Dropped[usage.DropFull]
		report.Add(own)
	}
	p.succeed(report, now)
}

// keepAll of a namespace; it returns whether anything is different now.
func (p *pool) keepAll(n *namespace, g *gathered, first int64, now time.Time, report *usage.Report) (different bool) {
	for number, answer := range g.answers {
		if answer == nil {
			continue
		}
		track := g.trackOf(n, number)
		for ; answer != nil && track != nil; answer = answer.next {
			if track.wanted.has(answer.container) && p.keepOf(n, track, answer, first, now, report) {
				different = true
			}
		}
	}
	return different
}

// trackOf a number, among those of its namespace, which may have changed while the answer was on its way.
func (g *gathered) trackOf(n *namespace, number int) *track {
	switch {
	case n.resolver == g.resolver:
		return n.tracks[number]
	}
	return n.track(g.wishes[number].workload)
}

// keepOf one container; it returns whether anything is different now.
func (p *pool) keepOf(n *namespace, track *track, a *answer, first int64, now time.Time, report *usage.Report) bool {
	known := track.history(a.container)
	if known == nil {
		known = track.add(a.container, n.share)
		known.slide(p.span(usage.StepOf(now, p.settings.QueryStep)))
	}
	different := p.replace(&known.cpu, first, a.cpu, report)
	if a.peak != nil {
		different = p.replace(known.peaks(), first, a.peak, report) || different
	}
	different = p.replace(&known.memory, first, a.memory, report) || different
	if different {
		known.version++
	}
	return different
}

// replace puts values in the place of earlier ones: the first answer about a step is made of fewer samples
// than the next. What has been packed is another value only where it has another mark.
func (p *pool) replace(m *series, first int64, values []float64, report *usage.Report) bool {
	for len(values) > 0 && (first < m.first || math.IsNaN(values[0])) {
		first, values = first+1, values[1:]
	}
	if len(values) == 0 {
		return false
	}
	if !m.room(first, int64(len(values))) {
		report.Drop(usage.DropFull, measured(values))
		return false
	}
	packed := m.next
	if m.empty() {
		packed = first
	}
	m.open(first)
	different := false
	for i, value := range values {
		step := first + int64(i)
		before := m.opened(step)
		switch {
		case math.IsNaN(value) || before == value || report.Partial && value < before:
			// A partial answer may lack the highest replica, so it only raises what is known.
		case step < packed && codec.BucketOf(before) == codec.BucketOf(value):
		case m.put(step, value):
			different = true
			p.tally(step, before)
		}
	}
	report.Drop(usage.DropFull, m.close())
	return different
}

// tally counts a step that was read again and is different now.
func (p *pool) tally(step int64, before float64) {
	switch {
	case !math.IsNaN(before):
		p.state.Revised++
	case step <= p.read && step > p.read-overlap:
		p.state.Late++
	}
}
