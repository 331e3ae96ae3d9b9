package history

import (
	"reflect"
	"slices"
	"time"

	"attune.io/attune/internal/workload"
	"attune.io/attune/usage"
)

// index holds what the policies want of one source, by namespace, and the histories that are known of it.
// Store.mutex guards it.
type index struct {
	settings usage.SourceSettings
	// length of the window is HistoryWindow divided by QueryStep, in steps, and at least 1. Neither ever changes.
	length     int64
	budget     *budget
	namespaces map[string]*namespace
}

// span returns the first and the last step of the window that ends with the step last.
func (x *index) span(last int64) (int64, int64) { return last - x.length + 1, last }

// query for the steps from first to last, both included.
func (x *index) query(namespaces []string, first, last int64) *usage.Query {
	return &usage.Query{
		Namespaces: namespaces,
		Start:      usage.StepEnd(first, x.settings.QueryStep),
		End:        usage.StepEnd(last, x.settings.QueryStep),
		Step:       x.settings.QueryStep,
		RateWindow: x.settings.RateWindow,
	}
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
}

// forget what a policy wants.
// Histories that no other policy of the namespace wants are released. With the last policy the namespace goes too.
func (x *index) forget(of owner, turn int64) {
	n := x.namespaces[of.namespace]
	delete(n.interests, of.policy)
	n.settle(turn)
	if len(n.interests) == 0 {
		delete(x.namespaces, of.namespace)
		x.budget.leave(of.namespace)
	}
}

// resolvers returns the resolvers of all namespaces. A read uses them without Store.mutex. That is safe because a
// resolver is never changed: a change of interests puts another resolver in its place.
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
// It is used by Restore, which may come before the first answer of the source.
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

// repeat marks the past as unread where the answer about it was partial and its pause is over. The values that
// were read stay: the new answer is merged over them.
func (x *index) repeat(now time.Time) {
	x.each(func(_ string, _ workload.KindName, track *track) {
		if !track.again.IsZero() && !track.again.After(now) {
			track.from, track.partial, track.again = uncovered, false, time.Time{}
			track.repeats++
		}
	})
}

// newestStart is the newest step that any history starts with.
func (x *index) newestStart(oldest int64) int64 {
	newest := oldest
	x.each(func(_ string, _ workload.KindName, track *track) { newest = max(newest, track.from) })
	return newest
}

// namespace holds what is read of one namespace from one source.
type namespace struct {
	// interests of the namespace's policies, by policy name.
	interests map[string]Interest
	// neighbours are all workloads of the namespace that own pods themselves, as given by the policy that called
	// Want last.
	neighbours []workload.KindName
	// resolver is replaced, never changed.
	resolver *resolver
	// tracks are parallel to resolver.wishes: tracks[i] is the history of wishes[i].
	tracks []*track
	// share is what the histories are taken from, and lost counts the values of the newest answer that found no room.
	share *share
	// lost counts the values of the newest answer that found no room in the share.
	lost int
	// asked is the backfill turn in which the past of the namespace was last asked for. For a new namespace it is
	// the turn in which it came. The namespace with the lowest number has waited longest.
	asked int64
	// refused is the error of the newest step, where that step alone was too much for the source; nil where it was
	// answered.
	refused error
	// lacks is true while steps are missing that were too much. They are read again when the source answers about
	// the namespace again, but not before rereadAt.
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
// The resolver and the tracks are replaced together, since the numbers of both belong to each other.
// A track of which more is wanted is replaced by a new one: a read that is on its way does not know what is wanted
// now, and must not count for it.
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

// resolver finds the workload of a series of one namespace, and whether it is wanted. It is immutable, so that a
// read uses it without Store.mutex.
type resolver struct {
	index workload.PodIndex
	// numbers of the workloads that are wanted, in wishes.
	numbers map[workload.KindName]int
	wishes  []wish
}

// wish is a workload that is wanted, and which containers of it.
type wish struct {
	workload   workload.KindName
	containers containers
}

// containers is a set of a few names; nil is all of them.
type containers []string

func (c containers) has(name string) bool { return c == nil || slices.Contains(c, name) }

// include says whether all of the others are in the set.
func (c containers) include(others containers) bool {
	if c == nil {
		return true
	}
	return others != nil && !slices.ContainsFunc(others, func(name string) bool { return !c.has(name) })
}

// newResolver of the interests of one namespace. Neighbours are in the index without being wanted, so that the pods of one
// are not taken for those of a workload with a shorter name.
func newResolver(interests map[string]Interest, neighbours []workload.KindName) *resolver {
	r := &resolver{numbers: map[workload.KindName]int{}}
	known := slices.Clone(neighbours)
	for _, interest := range interests {
		r.wishes = slices.Grow(r.wishes, len(interest.Workloads))
		for _, w := range interest.Workloads {
			workload := workload.KindName{Kind: w.Kind, Name: w.Name}
			known = append(known, workload)
			r.want(workload, w.Containers)
		}
	}
	r.index = workload.NewPodIndex(known)
	return r
}

// want adds to what other policies want of the workload. The names are the interest's, and shared until
// another policy wants other ones.
func (r *resolver) want(workload workload.KindName, names containers) {
	n, known := r.numbers[workload]
	if !known {
		r.numbers[workload] = len(r.wishes)
		if len(names) == 0 {
			names = nil
		}
		r.wishes = append(r.wishes, wish{workload, names})
		return
	}
	of := &r.wishes[n].containers
	switch {
	case *of == nil:
	case len(names) == 0:
		*of = nil
	case !of.include(names):
		both := slices.Concat(*of, names)
		slices.Sort(both)
		*of = slices.Compact(both)
	}
}

// number of the workload of a pod, if it is wanted.
func (r *resolver) number(pod string) (int, workload.Match) {
	name, match := r.index.Of(pod)
	if match != workload.MatchFound {
		return 0, match
	}
	n, known := r.numbers[name]
	if !known {
		return 0, workload.MatchNone
	}
	return n, workload.MatchFound
}
