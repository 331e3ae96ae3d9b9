package history

import (
	"fmt"
	"sync"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/usage"
)

// Interest is what one policy wants to know: which workloads, measured by which source.
type Interest struct {
	// Policy and its Namespace: a policy has one interest at a time.
	Policy, Namespace string
	// Source are the settings by which the usage is read. Policies with equal settings share one pool and its
	// queries.
	Source usage.SourceSettings
	// Workloads whose history the policy wants; empty: none.
	Workloads []Workload
	// Neighbours are all workloads of the namespace that stand for themselves, the same for each of its policies. Their
	// histories are not kept, but their pods are not mistaken for those of a workload with a shorter name.
	Neighbours []workload.KindName
}

// Workload whose history is wanted.
type Workload struct {
	// Kind and Name identify the workload within the policy's namespace.
	Kind v1alpha1.WorkloadKind
	Name string
	// Containers whose history is wanted; empty: all of them.
	Containers []string
}

// Key names one container's history, across replicas and template generations.
//
// A container that comes back with a new template continues the same history. The zero Key matches nothing.
type Key struct {
	// Source is the digest of the settings by which the usage is read.
	Source usage.Digest
	// Namespace of the workload.
	Namespace string
	// Kind and Workload are the workload's kind and name.
	Kind     v1alpha1.WorkloadKind
	Workload string
	// Container is its name in the pod template; not used by methods about a whole workload.
	Container string
}

// Options of a Store.
type Options struct {
	// Dial makes a source from its settings. It is called before the first read, after a failure, and once an hour
	// (redialAfter), without Store.mutex.
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
	// options is set by New and never changes.
	options Options
	budget  *budget

	// refreshing serialises refreshes. It is taken before mutex, never after it.
	refreshing sync.Mutex
	// announcing serialises calls of Changed.
	announcing sync.Mutex
	// mutex guards all fields below, and every pool, index, track, history and share. It is never held while a
	// source is read.
	mutex sync.RWMutex
	// asking holds the sources that have been asked and have not answered yet. turn counts the questions of all
	// sources.
	asking map[usage.Digest]bool
	turn   int64
	// interests maps each policy to the pool that holds its interest.
	interests map[owner]usage.Digest
	pools     map[usage.Digest]*pool
}

// owner identifies a policy. A policy has one interest at a time.
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

// Want replaces what the policy wanted before. What it wants is read at the next refresh; what no policy wants any
// more is forgotten at once. The store keeps the interest: the caller does not change it afterwards. To want the
// same again costs next to nothing, so a policy may call it at every pass.
//
// An error means that the namespace reads with mostWays different settings already; the policy gets no history
// then.
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
	pool.want(interest, pool.backfill.turn)
	return nil
}

// ways returns in how many different ways the namespace reads, if another one is added; 0 where that one is in use
// already.
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
	pool.forget(of, pool.backfill.turn)
	if len(pool.namespaces) == 0 {
		delete(s.pools, digest)
	}
}
