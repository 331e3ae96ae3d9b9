// Package store keeps the usage history of the containers that policies want, in memory, and keeps it up
// to date: each source is asked for the past once and then only for what is new.
//
// For each distinct source there are at most two reads a refresh, however many workloads there are: one
// that goes further back for the workloads that need it, and one for what is new for all of them.
package history

import (
	"fmt"
	"sync"
	"time"
	"weak"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// Interest is what one policy wants to know.
type Interest struct {
	// Policy and its Namespace: a policy has one interest at a time.
	Policy, Namespace string
	Source            usage.SourceSettings
	Workloads         []Workload
	// Neighbours are all workloads of the namespace that stand for themselves, the same for each of its policies. Their
	// histories are not kept, but their pods are not mistaken for those of a workload with a shorter name.
	Neighbours []workload.KindName
}

// Workload whose history is wanted.
type Workload struct {
	Kind v1alpha1.WorkloadKind
	Name string
	// Containers whose history is wanted; empty: all of them.
	Containers []string
}

// Key names one container's history, across replicas and template generations.
type Key struct {
	Source    usage.Digest
	Namespace string
	Kind      v1alpha1.WorkloadKind
	Workload  string
	Container string
}

// State is how a source does.
type State struct {
	// LastSuccess is when the source last answered; zero: never.
	LastSuccess time.Time
	// Err is why the last read failed, or nil. While reads go on to fail, the first reason stands for five minutes.
	Err error
	// Report sums up every read that was kept.
	Report usage.Report
	// Last is the report of the newest read. A warning stands for five minutes, or until there is none.
	Last usage.Report
	// Late counts steps that got their first value after a newer step had one, Revised those whose value
	// changed when they were read again.
	Late, Revised int
	// SettledAt is when histories that were restored must have been continued; until then they may seem to
	// have ended. Zero: nothing was restored, or nothing has been read yet.
	SettledAt time.Time
	// Containers with history, and the bytes that their values take.
	Containers int
	Bytes      int64
}

// Options of a Store.
type Options struct {
	Dial usage.Dialer
	// Changed is called after a refresh, once for each namespace with new data, and when a source has answered that took
	// longer; never twice at the same time.
	Changed func(namespace string)
	// Patience is how long a refresh waits for slow sources. 0: DefaultPatience.
	Patience time.Duration
	// Forgets says of a source that it cannot be asked for the whole past again after a restart, so that
	// histories are checkpointed; nil: none does.
	Forgets func(usage.SourceSettings) bool
	// MaxBytes bounds the values that are kept; beyond it, or beyond a namespace's share of it, further ones are
	// dropped and counted. 0: DefaultMaxBytes.
	MaxBytes int64
}

// DefaultMaxBytes has room for 150,000 containers with a week of 5-minute steps.
const DefaultMaxBytes = 512 << 20

// DefaultPatience is as long as a query of a Prometheus server may take.
const DefaultPatience = time.Minute

// Store keeps histories. It is safe for concurrent use.
type Store struct {
	options Options
	budget  *budget

	// refreshing serialises refreshes; it is taken before mutex.
	refreshing sync.Mutex
	// announcing serialises calls of Changed.
	announcing sync.Mutex
	mutex      sync.RWMutex
	// asking are the sources that have not answered yet, and turn counts how often one was asked.
	asking map[usage.Digest]bool
	turn   int64
	// interests say which pool holds the interest of each policy.
	interests map[owner]usage.Digest
	pools     map[usage.Digest]*pool
}

type owner struct{ namespace, policy string }

// New is an empty Store.
func New(options Options) *Store {
	if options.MaxBytes <= 0 {
		options.MaxBytes = DefaultMaxBytes
	}
	if options.Patience <= 0 {
		options.Patience = DefaultPatience
	}
	if options.Changed == nil {
		options.Changed = func(string) {}
	}
	if options.Forgets == nil {
		options.Forgets = func(usage.SourceSettings) bool { return false }
	}
	return &Store{
		options:   options,
		budget:    newBudget(options.MaxBytes),
		interests: map[owner]usage.Digest{},
		pools:     map[usage.Digest]*pool{},
		asking:    map[usage.Digest]bool{},
	}
}

// mostWays is how many different settings the policies of one namespace may read their history with: each costs queries
// of its own.
const mostWays = 8

// Want replaces what the policy wanted before. What it wants now is read at the next refresh; what no
// policy wants any more is forgotten. The store keeps the interest: do not change it. To want the same
// again costs next to nothing. An error says that the namespace reads in too many ways already; then the policy gets
// nothing.
func (s *Store) Want(interest Interest) error {
	digest := interest.Source.Digest()
	of := owner{interest.Namespace, interest.Policy}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if before, known := s.interests[of]; known && before != digest {
		s.drop(of, before)
	}
	if s.ways(interest.Namespace, digest) > mostWays {
		return fmt.Errorf("the policies of namespace %s read usage in %d different ways already (metricsSource): use the settings of one of them", interest.Namespace, mostWays)
	}
	s.interests[of] = digest
	pool := s.pools[digest]
	if pool == nil {
		pool = newPool(interest.Source, s.budget)
		s.pools[digest] = pool
	}
	pool.want(interest)
	return nil
}

// ways in which a namespace reads, with another one.
func (s *Store) ways(namespace string, another usage.Digest) int {
	if pool := s.pools[another]; pool != nil && pool.namespaces[namespace] != nil {
		return 0 // it is one of them
	}
	ways := 1
	for _, pool := range s.pools {
		if pool.namespaces[namespace] != nil {
			ways++
		}
	}
	return ways
}

// Forget what the policy wanted.
func (s *Store) Forget(namespace, policy string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	of := owner{namespace, policy}
	if digest, known := s.interests[of]; known {
		s.drop(of, digest)
	}
}

// drop an interest, and its pool with the last one.
func (s *Store) drop(of owner, digest usage.Digest) {
	delete(s.interests, of)
	pool := s.pools[digest]
	pool.forget(of)
	if len(pool.namespaces) == 0 {
		delete(s.pools, digest)
	}
}

// State of a source; false if nothing is wanted of it.
func (s *Store) State(settings usage.SourceSettings) (State, bool) {
	digest := settings.Digest()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	pool := s.pools[digest]
	if pool == nil {
		return State{}, false
	}
	return pool.current(), true
}

// Lost is how many values of the namespace found no room in the source's newest answer: the store is full, or holds the
// namespace's share already.
func (s *Store) Lost(settings usage.SourceSettings, namespace string) int {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	pool := s.pools[settings.Digest()]
	if pool == nil || pool.namespaces[namespace] == nil {
		return 0
	}
	return pool.namespaces[namespace].lost
}

// Unanswered is why the source does not answer about the usage of the namespace, or of a workload of it, while it does about
// others: it finds too much to be told. nil: it answers.
func (s *Store) Unanswered(settings usage.SourceSettings, namespace string) error {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	pool := s.pools[settings.Digest()]
	if pool == nil || pool.namespaces[namespace] == nil {
		return nil
	}
	n := pool.namespaces[namespace]
	if n.refused != nil {
		return n.refused
	}
	for i, track := range n.tracks {
		if of := n.resolver.wishes[i].workload; track.refusal != nil && track.refusal.why != nil && pool.read-track.from+1 < pool.window {
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
	pool := s.pools[key.Source]
	if pool == nil {
		return 0
	}
	track := pool.track(key.Namespace, key.workload())
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
	pool := s.pools[key.Source]
	if pool == nil {
		return true
	}
	track := pool.track(key.Namespace, key.workload())
	return track != nil && pool.read-track.from+1 >= pool.window
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
	pool := s.pools[key.Source]
	if pool == nil {
		return nil
	}
	if track := pool.track(key.Namespace, key.workload()); track != nil {
		return track.names()
	}
	return nil
}

func (s *Store) find(key Key) (*pool, *history) {
	pool := s.pools[key.Source]
	if pool == nil {
		return nil, nil
	}
	track := pool.track(key.Namespace, key.workload())
	if track == nil {
		return pool, nil
	}
	return pool, track.history(key.Container)
}

func (k Key) workload() workload.KindName {
	return workload.KindName{Kind: k.Kind, Name: k.Workload}
}
