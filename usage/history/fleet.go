package history

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// Coverage says how much of the past the spans of a workload show.
type Coverage struct {
	// Since is the oldest time from which on at least nine tenths of the steps until Until are known; zero: there is
	// none.
	Since, Until time.Time
	// Known of Of steps between the two are known.
	Known, Of int
	// Window is how far back spans reach at most: the history window, and no more than eight days.
	Window time.Duration
	// Why is the reason why the newest read failed; nil: it did not.
	Why error
}

// measuredWithin is the relative error of a mean of measured usage. A rate over a few samples depends on when the
// kubelet took them, and an HPA sees others.
const measuredWithin = 0.02

// Spans returns the mean usage of the pods of a workload with Workload.Fleet, by the number of pods, oldest first; nil
// without any. Without a container, a pod's usage is the sum of all its containers, which is what an HPA divides for a
// metric of the type Resource. The caller may keep the result.
//
// A span has the means of its number of pods within about 2 %, over the whole window. They need not be consecutive.
func (s *Store) Spans(key Key, r recommender.Resource) []replicas.Span {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	pool, f := s.fleet(key)
	if f == nil {
		return nil
	}
	means := f.kept.Of(key.Container)
	if means == nil {
		return nil
	}
	unit := 1.0 // bytes
	if r == recommender.CPU {
		unit = 1000 // millicores
	}
	var spans []replicas.Span
	means.Each(r == recommender.Memory, pool.seen, func(m codec.Mean) {
		spans = append(spans, replicas.Span{
			Ready: int32(m.Ready), Unready: int32(m.Unready),
			Least: m.Least * unit * (1 - measuredWithin), Greatest: m.Greatest * unit * (1 + measuredWithin),
			LeastAt: m.LeastAt * 60, GreatestAt: m.GreatestAt * 60,
		})
	})
	slices.SortStableFunc(spans, func(a, b replicas.Span) int {
		return cmp.Compare(max(a.LeastAt, a.GreatestAt), max(b.LeastAt, b.GreatestAt))
	})
	return spans
}

// Covered returns how much of the past Spans shows.
func (s *Store) Covered(key Key, r recommender.Resource) Coverage {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	pool, f := s.fleet(key)
	if f == nil {
		return Coverage{}
	}
	out := Coverage{Window: pool.fleets.window(), Why: f.why}
	means := f.kept.Of(key.Container)
	if means == nil || !f.begun || f.to < f.from {
		return out
	}
	step := int64(pool.fleets.step / time.Minute)
	perHour, until := 60/step, f.to*step
	last, known, of := hourOf(until), 0, 0
	first := max(last-int64(out.Window/time.Hour), (means.Since+59)/60)
	for hour := last; hour >= first; hour-- {
		n := max(f.kept.Known[r].Of(hour), f.past[r].Of(hour))
		known += n
		of += int(min(perHour, until/step-hour*perHour))
		if n > 0 && 10*known >= 9*of {
			out.Since, out.Until = time.Unix(hour*3600, 0).UTC(), time.Unix(until*60, 0).UTC()
			out.Known, out.Of = known, of
		}
	}
	return out
}

// hourOf returns the hour since 1970 of a step that ends at a minute.
func hourOf(minute int64) int64 { return (minute - 1) / 60 }

// fleet has what is known of the pods of a workload that an HPA scales. The steps between from and to have been read.
type fleet struct {
	from, to int64
	begun    bool
	// forgotten is the hour since 1970 before which nothing is kept.
	forgotten int64
	// changed: the containers of the workload have changed since to.
	changed bool
	// asked is the turn of the last query, or the one in which the fleet was added.
	asked int64
	// until is when it is read again after a failure or a partial answer, times how often in a row that happened. why is
	// the failure.
	until time.Time
	times int
	why   error
	// values is the number of values per step of the newest answer.
	values int64
	kept   codec.Fleet
	// past has the known steps of a checkpoint, apart from those of kept: a step that is read again counts once.
	past [2]codec.KnownSteps
	// restored, version and packed are as in history.
	restored bool
	version  uint64
	packed   packed
	// taken bytes are charged to the share.
	taken int64
}

func newFleet(turn int64) *fleet {
	return &fleet{asked: turn, version: births.Add(1) << 24}
}

// news changes whenever Spans or Covered change: also if the steps that were read have no usage, or a read fails.
func (f *fleet) news() uint64 {
	const odd = 0x9e3779b97f4a7c15 // spreads similar numbers
	news := (f.version*odd ^ uint64(f.from)) * odd
	if news ^= uint64(f.to); f.why != nil {
		news = ^news
	}
	return news * odd
}

// charge the share for the bytes in use.
func (f *fleet) charge(share *share) {
	taken := int64(cap(f.kept.Known[0].Counts) + cap(f.kept.Known[1].Counts))
	f.kept.Each(func(m *codec.Means) { taken += int64(m.Bytes()) })
	share.take(taken - f.taken)
	f.taken = taken
}

// release returns all bytes to the share.
func (f *fleet) release(share *share) {
	if f != nil {
		f.kept = codec.Fleet{}
		f.charge(share)
	}
}

// align moves the window to the steps from oldest to newest.
func (f *fleet) align(oldest, newest, step int64) {
	minute := newest * step
	switch {
	case !f.begun:
		f.begun, f.from, f.to = true, newest+1, newest
	case f.to > newest: // the clock was set back
		f.to, f.from = newest, min(f.from, newest+1)
		last := hourOf(minute)
		f.keepSteps(0, last, int((minute-last*60)/step))
		f.kept.Each(func(m *codec.Means) { m.SetBack(minute) })
		f.until = time.Time{}
	}
	if f.to < oldest-1 {
		f.from, f.to = oldest, oldest-1
	}
	f.from = max(f.from, oldest)
	if first := hourOf(oldest * step); first > f.forgotten {
		f.forgotten = first
		f.keepSteps(first, hourOf(minute), int(60/step))
		f.kept.Each(func(m *codec.Means) { m.Forget(first*60, minute) })
	}
}

// keepSteps keeps the known steps of the hours from first to last, and at most so many of the last one.
func (f *fleet) keepSteps(first, last int64, most int) {
	for r := range f.past {
		f.kept.Known[r].Keep(first, last, most)
		f.past[r].Keep(first, last, most)
	}
}

// fleetOf returns the fleet of a wish: the one of its track before, unless it has other pods now.
func (n *namespace) fleetOf(before *namespace, known *track, of wish, turn int64) *fleet {
	if known != nil && known.fleet != nil && before.resolver.wants(of.workload) {
		was := &before.resolver.wishes[before.resolver.numbers[of.workload]]
		if of.of.fleet && slices.Equal(was.of.members, of.of.members) {
			kept := &known.fleet.kept
			known.fleet.changed = known.fleet.changed || !slices.Equal(known.wanted, of.containers) || !slices.Equal(was.of.counted, of.of.counted)
			kept.Containers = slices.DeleteFunc(kept.Containers, func(c codec.ContainerMeans) bool { return !of.containers.has(c.Name) })
			return known.fleet
		}
		known.fleet.release(n.share)
	}
	if of.of.fleet {
		return newFleet(turn)
	}
	return nil
}

// fleet of a workload, and its pool; nil: no policy wants it.
func (s *Store) fleet(key Key) (*pool, *fleet) {
	pool, track := s.track(key)
	if track == nil || pool.track(key.Namespace, key.workload()) == nil || !pool.namespaces[key.Namespace].resolver.wants(key.workload()) {
		return pool, nil
	}
	return pool, track.fleet
}

// fleetCheckpoint returns the spans of a workload, like Checkpoint. Until they have been read, it returns the stored
// ones.
func (s *Store) fleetCheckpoint(key Key, most int, stored []byte) []byte {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	pool, f := s.fleet(key)
	switch {
	case f == nil || !s.options.Forgets(pool.settings):
		return nil
	case !f.begun:
		return stored
	}
	most = min(most, codec.MostFleet*(1+len(f.kept.Containers)))
	if len(stored) > 0 && f.packed == (packed{f.version, most, maphash.Bytes(seed, stored)}) {
		return stored
	}
	kept := f.kept
	kept.Step = pool.fleets.step
	for i := range kept.Known {
		known := kept.Known[i].Or(f.past[i])
		kept.Known[i], kept.At = known, max(kept.At, 60*(known.First+int64(len(known.Counts))))
	}
	data := codec.PackFleet(kept, most)
	f.packed = packed{f.version, most, maphash.Bytes(seed, data)}
	return data
}

// restoreFleet adds the spans of a checkpoint, like Restore. It does nothing if the source keeps the past itself: then
// they are read again.
func (s *Store) restoreFleet(key Key, stored []byte, now time.Time) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	pool, f := s.fleet(key)
	if f == nil || f.restored || len(stored) == 0 || !s.options.Forgets(pool.settings) {
		return nil
	}
	f.restored = true
	past, err := codec.UnpackFleet(stored)
	if err == nil {
		err = pool.fleets.usable(past, s.options.Most, now)
	}
	if err != nil {
		return fmt.Errorf("the history of the replicas cannot be used: %w", err)
	}
	f.past = past.Known
	if wanted := pool.track(key.Namespace, key.workload()).wanted; len(wanted) > 0 && !past.Has(wanted) {
		past.Each(func(m *codec.Means) { m.Since = past.At })
	}
	f.kept.Merge(past, now.Unix()/60)
	f.version++
	f.charge(pool.namespaces[key.Namespace].share)
	return nil
}

// usable returns why the spans of a checkpoint cannot be used.
func (f *fleets) usable(past codec.Fleet, most func() usage.Most, now time.Time) error {
	bound := usage.Most{}
	if most != nil {
		bound = most()
	}
	highest := [2]float64{}
	past.Each(func(means *codec.Means) {
		for r := range highest {
			highest[r] = max(highest[r], means.Highest(r == int(recommender.Memory)))
		}
	})
	switch at := time.Unix(past.At*60, 0); {
	case highest[recommender.CPU] > bound.Of(false), highest[recommender.Memory] > bound.Of(true):
		return fmt.Errorf("%g cores or %g bytes are more than any node has", highest[recommender.CPU], highest[recommender.Memory])
	case past.Step != f.step:
		return fmt.Errorf("it has steps of %s, not %s", past.Step, f.step)
	case at.After(now.Add(2 * time.Hour)):
		return fmt.Errorf("it is from the future: %s", at.UTC().Format(time.RFC3339))
	case at.Before(now.Add(-f.window())):
		return fmt.Errorf("it is from %s, before the history window", at.UTC().Format(time.RFC3339))
	}
	return nil
}
