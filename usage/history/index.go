package history

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/usage"
)

// index has the interests of the policies in one source, by namespace, and the known histories. Store.mutex guards it.
type index struct {
	settings usage.SourceSettings
	// length of the window is HistoryWindow divided by QueryStep, in steps, and at least 1. Neither setting ever
	// changes.
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

// want replaces a policy's interest; turn is the newest turn of the backfill. Data that is the same for all policies of
// a namespace is stored once. So an additional workload costs one new resolver, not one per policy.
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
	if interest.Since.After(n.since) {
		n.since = interest.Since
		n.drop(turn)
	}
	n.interests[interest.Policy], n.neighbours = interest, neighbours
	n.settle(turn)
}

// forget removes a policy's interest. Histories that no other policy of the namespace wants are released. The namespace
// is removed with its last policy.
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
// resolver is immutable: a change of interests replaces it.
func (x *index) resolvers() map[string]*resolver {
	all := make(map[string]*resolver, len(x.namespaces))
	for name, n := range x.namespaces {
		all[name] = n.resolver
	}
	return all
}

// each visits every track.
func (x *index) each(visit func(namespace string, of wish, track *track)) {
	for name, n := range x.namespaces {
		for i, track := range n.tracks {
			visit(name, n.resolver.wishes[i], track)
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

// add creates an empty history; it returns nil if no policy wants it. Restore uses it, because a checkpoint may come
// before the first answer of the source.
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

// repeat marks the past as unread if its answer was partial and the backoff is over. The values stay: the new answer is
// merged over them.
func (x *index) repeat(now time.Time) {
	x.each(func(_ string, _ wish, track *track) {
		if !track.again.IsZero() && !track.again.After(now) {
			track.from, track.partial, track.again = uncovered, false, time.Time{}
			track.repeats++
		}
	})
}

// namespace has the data of one namespace from one source.
type namespace struct {
	// interests of the namespace's policies, by policy name.
	interests map[string]Interest
	// since is the newest Interest.Since.
	since time.Time
	// neighbours are all workloads of the namespace that own pods themselves, as given in the last call of Want.
	neighbours []workload.KindName
	// resolver is replaced, never changed.
	resolver *resolver
	// tracks are parallel to resolver.wishes: tracks[i] is the history of wishes[i].
	tracks []*track
	// share is the part of the budget that the histories charge.
	share *share
	// lost counts the values of the newest answer that found no room in the share.
	lost int
	// asked is the backfill turn of the last query about the past of the namespace. For a new namespace it is the turn
	// in which it was added. The namespace with the lowest number has waited longest.
	asked int64
	// refused is the error of the newest step if this step alone was too large for the source; nil if it was answered.
	refused error
	// lacks is true while steps are missing because they were too large. They are read again after the source answers
	// about the namespace, but not before rereadAt.
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

// drop releases all histories. They are read again from the beginning.
func (n *namespace) drop(turn int64) {
	for i, known := range n.tracks {
		known.narrow(containers{})
		known.fleet.release(n.share)
		n.tracks[i] = &track{from: uncovered, asked: turn, wanted: n.resolver.wishes[i].containers}
		if n.resolver.wishes[i].of.fleet {
			n.tracks[i].fleet = newFleet(turn)
		}
	}
}

// settle applies the interests. A workload is read again from its beginning if it is new, has newly wanted containers,
// or has a member that had its own history. The resolver and the tracks are replaced together, because they share the
// workload numbers. A track with newly wanted containers is replaced: a read in progress does not know the new
// containers and must not count for the new track.
func (n *namespace) settle(turn int64) {
	before := *n
	n.resolver = newResolver(n.interests, n.neighbours)
	n.tracks = make([]*track, len(n.resolver.wishes))
	for i, wish := range before.resolver.wishes {
		if !n.resolver.wants(wish.workload) {
			before.tracks[i].narrow(containers{})
			before.tracks[i].fleet.release(n.share)
		}
	}
	for i, wish := range n.resolver.wishes {
		known := before.track(wish.workload)
		fleet := n.fleetOf(&before, known, wish, turn)
		switch {
		case known == nil || !before.resolver.wants(wish.workload):
			n.tracks[i] = &track{from: uncovered, asked: turn, wanted: wish.containers}
		case known.wanted.include(wish.containers) && !wish.adopts(before.resolver):
			known.narrow(wish.containers)
			n.tracks[i] = known
		default:
			known.narrow(wish.containers)
			n.tracks[i] = &track{from: uncovered, asked: turn, wanted: wish.containers, histories: known.histories}
		}
		n.tracks[i].fleet = fleet
	}
}

// answered records that the new steps of the namespace were answered. Missing older steps are then read again with the
// whole past, at most once an hour.
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

// resolver finds the workload of a series of one namespace, and whether it is wanted. It is immutable, so a read uses
// it without Store.mutex.
type resolver struct {
	index workload.PodIndex
	// numbers maps each wanted workload, and each member of one, to its index in wishes.
	numbers map[workload.KindName]int
	wishes  []wish
}

// wish is a wanted workload with its wanted containers.
type wish struct {
	workload   workload.KindName
	containers containers
	// of is shared between wishes to save memory.
	of *wanted
}

// wanted is how the history of a wish is read.
type wanted struct {
	// startup is the longest one of the policies that want the workload.
	startup time.Duration
	// members share the history; empty: the workload has its own.
	members []workload.KindName
	// fleet: the mean usage of its pods is wanted.
	fleet bool
	// counted are the containers that a pod has at least, if its fleet is wanted.
	counted containers
}

// containers is a set of a few names; nil means all containers.
type containers []string

func (c containers) has(name string) bool { return c == nil || slices.Contains(c, name) }

// include reports whether all of the others are in the set.
func (c containers) include(others containers) bool {
	if c == nil {
		return true
	}
	return others != nil && !slices.ContainsFunc(others, func(name string) bool { return !c.has(name) })
}

// newResolver returns the resolver of the interests of one namespace. Neighbours are indexed but not wanted. So their
// pods are not assigned to a workload with a shorter name.
func newResolver(interests map[string]Interest, neighbours []workload.KindName) *resolver {
	r := &resolver{numbers: map[workload.KindName]int{}}
	known, alone := slices.Clone(neighbours), map[time.Duration]*wanted{}
	// In a fixed order: while a workload changes its policy, two interests may have it.
	for _, policy := range slices.Sorted(maps.Keys(interests)) {
		interest := interests[policy]
		r.wishes = slices.Grow(r.wishes, len(interest.Workloads))
		for _, w := range interest.Workloads {
			of := workload.KindName{Kind: w.Kind, Name: w.Name}
			r.want(of, w.Containers)
			wish := &r.wishes[r.numbers[of]]
			startup, members := usage.Startup(interest.Startup), interest.Members[of]
			fleet, counted := w.Fleet != nil && fleetWanted(of, members), containers(nil)
			if fleet {
				counted = w.Fleet.Counted
			}
			if wish.of != nil {
				startup = max(startup, wish.of.startup)
				if wish.of.fleet && !fleet {
					fleet, counted = true, wish.of.counted
				}
			}
			if len(members) == 0 {
				known = append(known, of)
			}
			if len(members) > 0 || fleet {
				wish.of = &wanted{startup, members, fleet, counted}
			} else {
				if alone[startup] == nil {
					alone[startup] = &wanted{startup: startup}
				}
				wish.of = alone[startup]
			}
			for _, member := range members {
				known = append(known, member)
				if _, taken := r.numbers[member]; !taken {
					r.numbers[member] = r.numbers[of]
				}
			}
		}
	}
	r.index = workload.NewPodIndex(known)
	return r
}

// wants reports whether a workload is wanted itself, and not as a member of another.
func (r *resolver) wants(of workload.KindName) bool {
	n, known := r.numbers[of]
	return known && r.wishes[n].workload == of
}

// prefixes returns the common prefixes of the names of the pods.
func (w wish) prefixes() []string {
	if len(w.of.members) == 0 {
		return []string{usage.PodPrefix(w.workload.Name)}
	}
	return podview.Map(w.of.members, func(member workload.KindName) string { return usage.PodPrefix(member.Name) })
}

// adopts reports whether one of the members had its own history before.
func (w wish) adopts(before *resolver) bool {
	return slices.ContainsFunc(w.of.members, func(member workload.KindName) bool { return member != w.workload && before.wants(member) })
}

// want adds a policy's containers to those that other policies want of the workload. The slice is shared with the
// interest until another policy wants other containers.
func (r *resolver) want(workload workload.KindName, names containers) {
	n, known := r.numbers[workload]
	if !known {
		r.numbers[workload] = len(r.wishes)
		if len(names) == 0 {
			names = nil
		}
		r.wishes = append(r.wishes, wish{workload: workload, containers: names})
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
