package history

import (
	"reflect"
	"slices"
	"time"

	"attune.io/attune/internal/workload"
	"attune.io/attune/usage"
)

// window says what is read of a source: its settings, and how many steps of the past are kept. It is immutable.
type window struct {
	settings usage.SourceSettings
	// length in steps, at least 1.
	length int64
}

// span is the window that ends with a step: its first and its last step.
func (w *window) span(last int64) (int64, int64) { return last - w.length + 1, last }

// query for the steps from first to last, both included.
func (w *window) query(namespaces []string, first, last int64) *usage.Query {
	return &usage.Query{
		Namespaces: namespaces,
		Start:      usage.StepEnd(first, w.settings.QueryStep),
		End:        usage.StepEnd(last, w.settings.QueryStep),
		Step:       w.settings.QueryStep,
		RateWindow: w.settings.RateWindow,
	}
}

// index is what the policies want of one source, by namespace, and what is known of that.
type index struct {
	window
	budget     *budget
	namespaces map[string]*namespace
	// counted: containers and bytes are up to date. Every change of a history clears it.
	counted    bool
	containers int
	bytes      int64
}

// want replaces what a policy wants; turn is the newest of the backfill. What all of a namespace's policies see alike is kept
// once, so that a workload more costs one new resolver and not one for each policy.
func (x *index) want(interest Interest, turn int64) {
	n := x.namespaces[interest.Namespace]
	if n == nil {
		n = &namespace{interests: map[string]Interest{}, resolver: newResolver(nil, nil), share: x.budget.join(interest.Namespace), asked: turn}
		x.namespaces[interest.Namespace] = n
	}
	neighbours := interest.Neighbours
	interest.Neighbours = nil
	if before, known := n.interests[interest.Policy]; known && slices.Equal(n.neighbours, neighbours) && reflect.DeepEqual(before, interest) {
		return
	}
	n.interests[interest.Policy], n.neighbours = interest, neighbours
	n.settle(turn)
	x.counted = false
}

// forget what a policy wants.
func (x *index) forget(of owner, turn int64) {
	n := x.namespaces[of.namespace]
	delete(n.interests, of.policy)
	n.settle(turn)
	if len(n.interests) == 0 {
		delete(x.namespaces, of.namespace)
		x.budget.leave(of.namespace)
	}
	x.counted = false
}

// resolvers are those of all namespaces, for a read that goes on without the mutex.
func (x *index) resolvers() map[string]*resolver {
	all := make(map[string]*resolver, len(x.namespaces))
	for name, n := range x.namespaces {
		all[name] = n.resolver
	}
	return all
}

// each visits every track.
func (x *index) each(visit func(namespace string, of workload.KindName, track *track)) {
	for name, n := range x.namespaces {
		for i, track := range n.tracks {
			visit(name, n.resolver.wishes[i].workload, track)
		}
	}
}

// track of a workload, or nil.
func (x *index) track(namespace string, of workload.KindName) *track {
	if n := x.namespaces[namespace]; n != nil {
		return n.track(of)
	}
	return nil
}

// add an empty history; nil where none is wanted.
func (x *index) add(key Key) *history {
	n := x.namespaces[key.Namespace]
	if n == nil {
		return nil
	}
	track := n.track(key.workload())
	if track == nil || !track.wanted.has(key.Container) {
		return nil
	}
	return track.add(key.Container, n.share)
}

// count the containers with history, and the bytes that their values take. It looks at them only when something has changed.
func (x *index) count() (containers int, bytes int64) {
	if x.counted {
		return x.containers, x.bytes
	}
	x.each(func(_ string, _ workload.KindName, track *track) {
		containers += len(track.histories)
		for _, history := range track.histories {
			bytes += history.bytes()
		}
	})
	x.counted, x.containers, x.bytes = true, containers, bytes
	return containers, bytes
}

// repeat has the past read again where answers about it were partial. What was read stays.
func (x *index) repeat(now time.Time) {
	x.each(func(_ string, _ workload.KindName, track *track) {
		if !track.again.IsZero() && !track.again.After(now) {
			track.from, track.partial, track.again = uncovered, false, time.Time{}
			track.repeats++
		}
	})
}

// hurry reads again now what was answered in part of the past: the source answers in whole again.
func (x *index) hurry(now time.Time) {
	x.each(func(_ string, _ workload.KindName, track *track) {
		if track.partial {
			track.again = now
		}
	})
}

// newestStart is the newest step that any history starts with.
func (x *index) newestStart(oldest int64) int64 {
	newest := oldest
	x.each(func(_ string, _ workload.KindName, track *track) { newest = max(newest, track.from) })
	return newest
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
