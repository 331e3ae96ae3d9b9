package history

import (
	"fmt"
	"time"
	"weak"

	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// State of a source: whether it answers, and whether its answers were complete.
type State struct {
	// LastSuccess is when the source last answered; zero: never.
	LastSuccess time.Time
	// Err is why the last read failed, or nil. While reads keep failing, the first reason stays for five minutes.
	Err error
	// Last is the report of the newest read. A warning stays for five minutes, or until the source reports no warnings.
	Last usage.Report
	// SettledAt is when restored histories must have new values; until then they may seem to have ended. Zero: nothing
	// was restored, or nothing has been read yet.
	SettledAt time.Time
	// Young reports that this process has had answers of the source for less than a day, so that Implausible does not
	// count all samples that were dropped in the last day.
	Young bool
}

// State of a source; false if no policy uses it.
func (s *Store) State(settings usage.SourceSettings) (State, bool) {
	digest := settings.Digest()
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	pool := s.pools[digest]
	if pool == nil {
		return State{}, false
	}
	state := pool.state
	state.SettledAt = pool.settled(pool.settings.QueryStep)
	state.Young = pool.began.IsZero() || pool.seen.Sub(pool.began) < 24*time.Hour
	return state, true
}

// Lost is how many values of the namespace found no room in the source's newest answer: the store is full, or the
// namespace has used up its share.
func (s *Store) Lost(settings usage.SourceSettings, namespace string) int {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	if _, n := s.namespace(settings, namespace); n != nil {
		return n.lost
	}
	return 0
}

// Unanswered returns why the source does not answer about the namespace or one of its workloads while it answers about
// others: the queries are too large for it. It returns nil if the source answers.
func (s *Store) Unanswered(settings usage.SourceSettings, namespace string) error {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	pool, n := s.namespace(settings, namespace)
	switch {
	case n == nil:
		return nil
	case n.refused != nil:
		return n.refused
	}
	for i, track := range n.tracks {
		if of := n.resolver.wishes[i].workload; track.refusal != nil && track.refusal.why != nil && !pool.covers(track) {
			return fmt.Errorf("reading the past usage of %s %s: %w", of.Kind, of.Name, track.refusal.why)
		}
	}
	return nil
}

// News returns a number that changes whenever the history of the key's workload changes: values are new, or have left
// the window.
func (s *Store) News(key Key) uint64 {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	_, track := s.track(key)
	if track == nil {
		return 0
	}
	const prime = 1099511628211 // of FNV-1a
	news := uint64(len(track.histories))
	for _, history := range track.histories {
		news = (news ^ history.version) * prime
	}
	if f := track.fleet; f != nil {
		news = (news ^ f.news()) * prime
	}
	return news
}

// Read reports whether the whole past of a key's workload has been read, regardless of the container, or is not read at
// all because no policy uses the source. It is false for a workload that was just added.
func (s *Store) Read(key Key) bool {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	pool, track := s.track(key)
	return pool == nil || track != nil && pool.covers(track)
}

// Await says whether a policy waits for new usage of a key's workload: its history is out of date and its pods run. Until
// new usage is seen, each refresh also reads the step that has not ended yet.
func (s *Store) Await(key Key, awaited bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, track := s.track(key); track != nil {
		track.awaited = awaited
	}
}

// Profile of one container; false if it has no data in the history window that ends now. Quantiles have an error of at
// most codec.MaxError. Peaks are exact maxima, except in the oldest day of the window: after its highest value has left
// the window, the rest has the same error. The profile is computed on first use after new data came, and cached while
// it is in use and until the next garbage collection. It is shared: do not change it.
func (s *Store) Profile(key Key, now time.Time) (recommender.Profile, bool) {
	s.mutex.RLock()
	pool, history := s.find(key)
	if history == nil {
		s.mutex.RUnlock()
		return recommender.Profile{}, false
	}
	known, version, seen := history.digest.Value(), history.version, history.seen
	fresh := known != nil && history.digested == version
	if !fresh {
		known = newDigest(history, pool.settings.QueryStep)
	}
	s.mutex.RUnlock()
	if !fresh {
		s.cache(key, known, version)
	}
	profile := known.profile
	for r, at := range seen {
		if of, at := &profile.Of[r], time.Unix(int64(at), 0).UTC(); of.Points > 0 && at.After(of.Last) {
			of.Last = at
			if at.After(profile.Last) {
				profile.Last = at
			}
		}
	}
	return profile, !profile.Last.IsZero() && profile.Last.After(now.Add(-pool.settings.HistoryWindow))
}

// cache a digest that was computed without the write lock, unless the values have changed since.
func (s *Store) cache(key Key, made *digest, version uint64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, history := s.find(key); history != nil && history.version == version {
		history.digest, history.digested = weak.Make(made), version
	}
}

// Steps returns the values behind a container's profile, oldest first; see codec.MaxError for their accuracy.
func (s *Store) Steps(key Key) []recommender.StepUsage {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	pool, history := s.find(key)
	if history == nil {
		return nil
	}
	return history.steps(pool.settings.QueryStep)
}

// Containers returns the containers of a workload that have history, in alphabetical order.
func (s *Store) Containers(key Key) []string {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	if _, track := s.track(key); track != nil {
		return track.names()
	}
	return nil
}

// find returns a container's history and its source's pool; nil if they are unknown, or if no policy uses the source.
func (s *Store) find(key Key) (*pool, *history) {
	pool, track := s.track(key)
	if track == nil {
		return pool, nil
	}
	return pool, track.history(key.Container)
}

// track of a key's workload and its source's pool; nil if no policy wants them.
func (s *Store) track(key Key) (*pool, *track) {
	pool := s.pools[key.Source]
	if pool == nil {
		return nil, nil
	}
	return pool, pool.track(key.Namespace, key.workload())
}

// namespace returns the namespace and the pool for these settings; nil if no policy uses the source.
func (s *Store) namespace(settings usage.SourceSettings, name string) (*pool, *namespace) {
	pool := s.pools[settings.Digest()]
	if pool == nil {
		return nil, nil
	}
	return pool, pool.namespaces[name]
}

func (k Key) workload() workload.KindName { return workload.KindName{Kind: k.Kind, Name: k.Workload} }

// Highest is the highest usage of a container, over its workload's replicas, in the steps that overlap the time after
// from, up to to. For CPU it includes the peaks within the steps. It returns false if nothing was measured. Packed
// values (codec.MaxError) in the bucket of their day's highest value are returned as that value.
func (s *Store) Highest(key Key, r recommender.Resource, from, to time.Time) (recommender.Usage, bool) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	pool, history := s.find(key)
	if history == nil {
		return 0, false
	}
	step := pool.settings.QueryStep
	first, last := usage.StepOf(from, step)+1, usage.StepHolding(to, step)
	highest := history.memory.max(first, last)
	if r == recommender.CPU {
		highest = history.maxCPU(first, last)
	}
	return r.Measured(highest), highest >= 0
}
