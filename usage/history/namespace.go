package history

import (
	"time"

	"attune.io/attune/internal/workload"
)

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
