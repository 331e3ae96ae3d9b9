// Package history keeps the usage history of the containers that policies want, in memory, and keeps it up to
// date: each source is asked for the past once and then only for what is new.
//
// For each distinct source there are at most two reads in a refresh, however many workloads there are: one for
// what is new in all of them, and one that goes further back for the workloads that need it.
//
// The data takes this way:
//
//  1. Store.Want records which workloads a policy needs. A Store has one pool for each source (usage.Digest).
//  2. Store.Refresh makes the pool plan its queries: increments for what is new, backfill for the past.
//  3. A collector takes the answer and keeps the highest replica of each step.
//  4. A merge writes the answer into the histories of the pool's index.
//  5. A history has one packed series for each measure (package codec). Its bytes count against the share that its
//     namespace has of the budget.
//  6. Store.Profile makes a digest of a history when it is first asked for, and reads the profile from it.
//
// The package never asks a source while it holds Store.mutex, it writes nothing to disk or to the API server, and
// it decides no size. Start reading at store.go, then refresh.go, pool.go and series.go.
package history

import (
	"cmp"
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
	// Parallel is how many sources are begun to be asked at the same time; 0: 8. With 1 they answer in a known order.
	Parallel int
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
	options.MaxBytes = cmp.Or(options.MaxBytes, DefaultMaxBytes)
	options.Patience = cmp.Or(options.Patience, DefaultPatience)
	options.Parallel = cmp.Or(options.Parallel, defaultParallel)
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

// greed is how many times what is left one namespace may hold, the α of the paper below. A namespace that is alone
// gets two thirds of the store. Five that take all they can get two elevenths each, and one that comes after them
// still finds room: what they have, they have taken from what is left for all.
//
// It is the dynamic threshold of shared packet buffers: A. K. Choudhury and E. L. Hahne, "Dynamic queue length
// thresholds for shared-memory packet switches", IEEE/ACM Transactions on Networking 6 (1998).
const greed = 2

// budget is the room for all histories of a store, in bytes. The store's mutex guards it and its shares.
//
// Invariant: left plus the sum of all held is the size of the store. left may fall below zero for a while, because
// the gaps of a block are kept even where its values find no room.
type budget struct {
	// left are the bytes that no namespace holds.
	left int64
	// shares of the namespaces that want something or hold something.
	shares map[string]*share
}

func newBudget(size int64) *budget { return &budget{left: size, shares: map[string]*share{}} }

// share is what one namespace holds of the budget, whatever the source: any number of policies have one between them.
type share struct {
	budget *budget
	// held bytes, of all sources.
	held int64
	// users are the sources of which the namespace wants something.
	users int
}

// join is the share of a namespace that begins to want something of a source.
func (b *budget) join(namespace string) *share {
	s := b.shares[namespace]
	if s == nil {
		s = &share{budget: b}
		b.shares[namespace] = s
	}
	s.users++
	return s
}

// leave a share that a source's histories had, once they are released.
func (b *budget) leave(namespace string) {
	s := b.shares[namespace]
	if s.users--; s.users == 0 {
		delete(b.shares, namespace)
	}
}

// left is how many bytes more the namespace may hold. The most is x with held + x = greed × (left − x).
func (s *share) left() int64 {
	return (greed*s.budget.left - s.held) / (1 + greed)
}

// take bytes, or give them back where there are fewer than none.
func (s *share) take(bytes int64) {
	s.held += bytes
	s.budget.left -= bytes
}
