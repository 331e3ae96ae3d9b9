package history

import (
	"fmt"
	"time"
	"weak"

	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// State describes how a source does: whether it answers, and what its answers lacked.
type State struct {
	// LastSuccess is when the source last answered; zero: never.
	LastSuccess time.Time
	// Err is why the last read failed, or nil. While reads go on to fail, the first reason stands for five minutes.
	Err error
	// Last is the report of the newest read. A warning stands for five minutes, or until there is none.
	Last usage.Report
	// SettledAt is when histories that were restored must have been continued; until then they may seem to
	// have ended. Zero: nothing was restored, or nothing has been read yet.
	SettledAt time.Time
}

// State of a source; false if nothing is wanted of it.
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
	return state, true
}

// Lost is how many values of the namespace found no room in the source's newest answer: the store is full, or holds the
// namespace's share already.
func (s *Store) Lost(settings usage.SourceSettings, namespace string) int {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	if _, n := s.namespace(settings, namespace); n != nil {
		return n.lost
	}
	return 0
}

// Unanswered is why the source does not answer about the usage of the namespace, or of a workload of it, while it does about
// others: it finds too much to be told. nil: it answers.
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
			return fmt.Errorf("the past of %s %s: %w", of.Kind, of.Name, track.refusal.why)
		}
	}
	return nil
}

// News is another number whenever what is known of the containers of a key's workload is another: values are new, or have
// left the window.
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
	return news
}

// Read says whether the whole past of a key's workload has been read, whatever its container, or is not asked for at
// all. A workload that is wanted for the first time has none that was read.
func (s *Store) Read(key Key) bool {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	pool, track := s.track(key)
	return pool == nil || track != nil && pool.covers(track)
}

// Profile of one container: false if it has no data in the history window that ends now. Its quantiles are
// off by codec.MaxError at most, its peaks are true maxima, but for the oldest day of the window: of that, what is
// left after the highest value has gone is off by as much. It is computed when it is first asked for after
// new data came, is kept while it is in use and until the next garbage collection, and is shared: do not
// change it.
func (s *Store) Profile(key Key, now time.Time) (recommender.Profile, bool) {
	s.mutex.RLock()
	pool, history := s.find(key)
	if history == nil {
		s.mutex.RUnlock()
		return recommender.Profile{}, false
	}
	known, version := history.digest.Value(), history.version
	fresh := known != nil && history.digested == version
	if !fresh {
		known = newDigest(history, pool.settings.QueryStep)
	}
	s.mutex.RUnlock()
	if !fresh {
		s.cache(key, known, version)
	}
	profile := known.profile
	return profile, !profile.Last.IsZero() && profile.Last.After(now.Add(-pool.settings.HistoryWindow))
}

// cache a digest that was made without the lock, unless there are other values by now.
func (s *Store) cache(key Key, made *digest, version uint64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, history := s.find(key); history != nil && history.version == version {
		history.digest, history.digested = weak.Make(made), version
	}
}

// Steps are the values behind a container's profile, oldest first; see codec.MaxError.
func (s *Store) Steps(key Key) []recommender.StepUsage {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	pool, history := s.find(key)
	if history == nil {
		return nil
	}
	return history.steps(pool.settings.QueryStep)
}

// Containers of a workload that have history, in alphabetical order.
func (s *Store) Containers(key Key) []string {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	if _, track := s.track(key); track != nil {
		return track.names()
	}
	return nil
}

// find a container's history and its source's pool; nil where nothing is known, or nothing wanted of the source.
func (s *Store) find(key Key) (*pool, *history) {
	pool, track := s.track(key)
	if track == nil {
		return pool, nil
	}
	return pool, track.history(key.Container)
}

// track of a key's workload and its source's pool; nil where nothing is wanted of them.
func (s *Store) track(key Key) (*pool, *track) {
	pool := s.pools[key.Source]
	if pool == nil {
		return nil, nil
	}
	return pool, pool.track(key.Namespace, key.workload())
}

// namespace and the pool of what is read of it by these settings; nil where nothing is wanted of them.
func (s *Store) namespace(settings usage.SourceSettings, name string) (*pool, *namespace) {
	pool := s.pools[settings.Digest()]
	if pool == nil {
		return nil, nil
	}
	return pool, pool.namespaces[name]
}

func (k Key) workload() workload.KindName { return workload.KindName{Kind: k.Kind, Name: k.Workload} }

// Highest usage of a container, over its workload's replicas, in the steps that overlap the time after
// from, up to to; of CPU the peaks within the steps. False where nothing was measured. Steps that are
// packed (codec.MaxError) and in the bucket of their day's highest are told as that one.
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
