package history

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"attune.io/attune/internal/workload"
	"attune.io/attune/usage"
)

// pool is everything that is read from one source. The store's mutex guards it, but for what is said to be
// immutable.
type pool struct {
	settings usage.SourceSettings // immutable
	window   int64                // steps, immutable
	budget   *budget

	namespaces map[string]*namespace
	// source is nil before the first read, after a failure, and from redialAt on.
	source   usage.Source
	redialAt time.Time
	// read is the newest step that has been read for every covered track; 0: none. slid is the newest one that any
	// history's window has moved to.
	read, slid int64
	// seen is the latest time at which it was looked at.
	seen time.Time
	// scratch is how many values an answer may have in memory.
	scratch int64
	// past is how the past is asked for, and pastTurn counts the questions about it.
	past     pastPart
	pastTurn int64
	// newest is how what is new is asked for.
	newest newestPart
	// partial is the first step of what was new and answered in part; 0: all was answered in whole. It is read again once
	// an answer is whole, but not before mendAt. That is further away after each of mends in a row that was no help: of what
	// was read again then, the steps before mended, something was missing again.
	partial  int64
	mendAt   time.Time
	mends    int
	mended   int64
	helpless bool
	// whole is since when what is new was answered in whole; zero: it is not.
	whole time.Time
	state State
	// saidAt is when what state says of a failure was said first, warnedAt the same of warnings.
	saidAt, warnedAt time.Time
	// began is when the source answered first; resumed: a history was restored.
	began   time.Time
	resumed bool
	// failures in a row, and when the source is asked again after them; turn is when it was asked last, as the store counts.
	failures int
	retryAt  time.Time
	turn     int64
	// counted: what state says of the histories is up to date.
	counted bool
}

// namespace is what is read of one namespace.
type namespace struct {
	// interests by policy.
	interests map[string]Interest
	// neighbours are all workloads of the namespace that stand for themselves, as a policy has seen them last.
	neighbours []workload.KindName
	// resolver is replaced, never changed.
	resolver *resolver
	// tracks have the numbers of the resolver's wishes.
	tracks []*track
	// share is what the histories are taken from, and lost counts the values of the newest answer that found no room.
	share *share
	lost  int
	// asked is the turn in which any of its past was asked for last, or in which it came.
	asked int64
	// refused is why the newest step by itself was too much; nil: it was answered. lacks: some were too much, and the past
	// is read again once they are not, but not before rereadAt.
	refused  error
	lacks    bool
	rereadAt time.Time
}

// track of a workload, or nil.
func (n *namespace) track(of workload.KindName) *track {
	if i, known := n.resolver.numbers[of]; known {
		return n.tracks[i]
	}
	return nil
}

// track is one workload's history.
type track struct {
	// from is the oldest step that has been read; uncovered before the first read.
	from int64
	// partial: an answer about its past was; again is when that is read again, zero: never.
	partial bool
	again   time.Time
	// repeats is how often that was done.
	repeats int
	// asked is the turn in which its past was asked for last, or in which it came.
	asked int64
	// refusal of its past, of which something was too much by itself; nil: nothing was.
	refusal   *refusal
	wanted    containers
	histories []named
}

// refusal is of a workload whose past is asked for by itself: so many steps at once, and fewer than were too much. why is
// nil while it is answered so; else it is not asked for before until, after so many times.
type refusal struct {
	steps, tooMuch int64
	why            error
	until          time.Time
	times          int
}

// rests: the least of its past was too much a while ago.
func (t *track) rests(now time.Time) bool { return t.refusal != nil && now.Before(t.refusal.until) }

// named is the history of a container. Workloads have few of them.
type named struct {
	container string
	*history
}

// history of a container, or nil.
func (t *track) history(container string) *history {
	for _, of := range t.histories {
		if of.container == container {
			return of.history
		}
	}
	return nil
}

// add an empty history.
func (t *track) add(container string, share *share) *history {
	added := newHistory(share)
	t.histories = append(t.histories, named{strings.Clone(container), added})
	return added
}

// names of the containers, in alphabetical order.
func (t *track) names() []string {
	var names []string
	for _, of := range t.histories {
		names = append(names, of.container)
	}
	slices.Sort(names)
	return names
}

// uncovered is newer than any step.
const uncovered = int64(1) << 62

func newPool(settings usage.SourceSettings, budget *budget) *pool {
	return &pool{
		settings:   settings,
		window:     max(1, int64(settings.HistoryWindow/settings.QueryStep)),
		budget:     budget,
		scratch:    scratchValues,
		namespaces: map[string]*namespace{},
	}
}

// want replaces what a policy wants. What all of a namespace's policies see alike is kept once, so that a workload more
// costs one new resolver and not one for each policy.
func (p *pool) want(interest Interest) {
	n := p.namespaces[interest.Namespace]
	if n == nil {
		n = &namespace{interests: map[string]Interest{}, resolver: newResolver(nil, nil), share: p.budget.join(interest.Namespace), asked: p.pastTurn}
		p.namespaces[interest.Namespace] = n
	}
	neighbours := interest.Neighbours
	interest.Neighbours = nil
	if before, known := n.interests[interest.Policy]; known && slices.Equal(n.neighbours, neighbours) && reflect.DeepEqual(before, interest) {
		return
	}
	n.interests[interest.Policy], n.neighbours = interest, neighbours
	n.settle(p.pastTurn)
	p.counted = false
}

// forget what a policy wants.
func (p *pool) forget(of owner) {
	n := p.namespaces[of.namespace]
	delete(n.interests, of.policy)
	n.settle(p.pastTurn)
	if len(n.interests) == 0 {
		delete(p.namespaces, of.namespace)
		p.budget.leave(of.namespace)
	}
	p.counted = false
}

// settle follows the interests. A workload that is new, or of which more is wanted than before, is read
// again from its beginning.
func (n *namespace) settle(turn int64) {
	before := *n
	n.resolver = newResolver(n.interests, n.neighbours)
	n.tracks = make([]*track, len(n.resolver.wishes))
	for i, wish := range before.resolver.wishes {
		if _, still := n.resolver.numbers[wish.workload]; !still {
			before.tracks[i].narrow(containers{})
		}
	}
	for i, wish := range n.resolver.wishes {
		known := before.track(wish.workload)
		switch {
		case known == nil:
			n.tracks[i] = &track{from: uncovered, asked: turn, wanted: wish.containers}
		case known.wanted.include(wish.containers):
			known.narrow(wish.containers)
			n.tracks[i] = known
		default:
			// A new track: a read that is on its way does not know what is wanted now, and must not count
			// for it.
			known.narrow(wish.containers)
			n.tracks[i] = &track{from: uncovered, asked: turn, wanted: wish.containers, histories: known.histories}
		}
	}
}

// narrow forgets the containers that are not wanted.
func (t *track) narrow(wanted containers) {
	t.wanted = wanted
	t.histories = slices.DeleteFunc(t.histories, func(of named) bool {
		if wanted.has(of.container) {
			return false
		}
		of.release()
		return true
	})
}

// resolvers are those of all namespaces, for a read that goes on without the mutex.
func (p *pool) resolvers() map[string]*resolver {
	all := make(map[string]*resolver, len(p.namespaces))
	for name, n := range p.namespaces {
		all[name] = n.resolver
	}
	return all
}

// each visits every track.
func (p *pool) each(visit func(namespace string, workload workload.KindName, track *track)) {
	for name, n := range p.namespaces {
		for i, track := range n.tracks {
			visit(name, n.resolver.wishes[i].workload, track)
		}
	}
}

// track of a workload, or nil.
func (p *pool) track(namespace string, workload workload.KindName) *track {
	if n := p.namespaces[namespace]; n != nil {
		return n.track(workload)
	}
	return nil
}

// span is the history window that ends with the step.
func (p *pool) span(last int64) (int64, int64) { return last - p.window + 1, last }

// current is the pool's state, counted anew only when something has changed.
func (p *pool) current() State {
	if !p.counted {
		p.count()
	}
	p.state.SettledAt = p.settled()
	state := p.state
	state.Report.Dropped = maps.Clone(state.Report.Dropped) // it goes on to be counted in
	return state
}

func (p *pool) count() {
	p.counted = true
	p.state.Containers, p.state.Bytes = 0, 0
	p.each(func(_ string, _ workload.KindName, track *track) {
		p.state.Containers += len(track.histories)
		for _, history := range track.histories {
			p.state.Bytes += history.bytes()
		}
	})
}

// calm is how long what is said of a source stays as it is while it goes on to fail, or to complain: texts differ in
// addresses, nodes and counts, and each change is a write to the status of every policy of the source.
const calm = 5 * time.Minute

// saidBefore: something was said a moment ago, by a clock that has not been put back since.
func saidBefore(at, now time.Time) bool { return !now.Before(at) && now.Sub(at) < calm }

// fail keeps why a read failed. The source is made anew next time: perhaps a secret has changed.
func (p *pool) fail(err error, now time.Time) {
	if p.state.Err == nil || !saidBefore(p.saidAt, now) {
		p.state.Err, p.saidAt = err, now
	}
	p.source = nil
	p.failures++
	p.retryAt = now.Add(pause(p.failures))
}

const (
	// firstPause is how long a source that has failed three times is left alone, and mostPause the longest that one is.
	firstPause = time.Minute
	mostPause  = 5 * time.Minute
)

// pause after a number of failures in a row: none at first, then twice as long each time.
func pause(failures int) time.Duration {
	if failures < 3 {
		return 0
	}
	return min(firstPause<<min(failures-3, 10), mostPause)
}

func (p *pool) succeed(report usage.Report, now time.Time) {
	p.counted = false
	p.state.Err = nil
	p.failures, p.retryAt = 0, time.Time{}
	if p.began.IsZero() {
		p.began = now
	}
	p.state.LastSuccess = now
	p.state.Report.Add(report)
	said := p.state.Last.Warnings
	p.state.Last = report
	switch {
	case len(report.Warnings) == 0: // that it is over is said at once
	case saidBefore(p.warnedAt, now):
		p.state.Last.Warnings = said
	case !slices.Equal(said, report.Warnings):
		p.warnedAt = now
	}
}
