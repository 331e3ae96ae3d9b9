// Package history keeps the usage history of the containers that policies want, in memory, and keeps it up to date: it
// queries each source for the past once and then only for new steps.
//
// For each distinct source there are at most two reads in a refresh, for any number of workloads: one for new steps of
// all of them, and one that goes further back for the workloads that need it.
//
// The data takes this path:
//
//  1. Store.Want records which workloads a policy needs. A Store has one pool for each source (usage.Digest).
//  2. Store.Refresh makes the pool plan its queries: increments for new steps, backfill for the past.
//  3. A collector takes the answer and keeps the highest replica of each step.
//  4. A merge writes the answer into the histories of the pool's index.
//  5. A history has one packed series for each measure (package codec). Its bytes count against its namespace's share
//     of the budget.
//  6. Store.Profile computes a digest of a history on first use, and reads the profile from it.
//
// The package never queries a source while it holds Store.mutex, it writes nothing to disk or to the API server, and it
// decides no size. Start reading at store.go, then refresh.go, pool.go and series.go.
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

// Interest of one policy: which workloads, measured by which source.
type Interest struct {
	// Policy and its Namespace: a policy has one interest at a time.
	Policy, Namespace string
	// Source has the settings by which usage is read. Policies with equal settings share one pool and its queries.
	Source usage.SourceSettings
	// Startup is how long containers start: their CPU until then is no usage. As usage.Startup reads it.
	Startup time.Duration
	// Since is the creation of the namespace if another namespace of its name is known to have existed before: earlier
	// usage is not its own. Zero: all usage counts.
	Since time.Time
	// Workloads whose history the policy wants; empty: none.
	Workloads []Workload
	// Members has, for entries of Workloads that several workloads share, these workloads: their pods count for the
	// history, and their keys read it. The entry is itself a member, or its name belongs to no workload.
	Members map[workload.KindName][]workload.KindName
	// Neighbours are all workloads of the namespace that own pods themselves, the same for each of its policies. Their
	// histories are not kept. But their pods are not assigned to a workload with a shorter name.
	Neighbours []workload.KindName
}

// Workload is a workload whose history is wanted.
type Workload struct {
	// Kind and Name identify the workload within the policy's namespace.
	Kind v1alpha1.WorkloadKind
	Name string
	// Containers whose history is wanted; empty: all of them.
	Containers []string
	// Fleet is set if an HPA scales the workload, and the mean usage of its pods is wanted too (Store.Spans). It costs
	// queries of its own.
	Fleet *Fleet
}

// Fleet are the pods of a workload.
type Fleet struct {
	// Counted are all containers that run as long as a pod does, also those that are not sized: an HPA counts them. The
	// mean of pods without one of them is not known. Empty: those of Workload.Containers.
	Counted []string
}

// Key identifies one container's history, across replicas and template generations.
//
// A container that returns with a new template continues the same history. The zero Key matches nothing.
type Key struct {
	// Source is the digest of the source's settings.
	Source usage.Digest
	// Namespace of the workload.
	Namespace string
	// Kind and Workload are the workload's kind and name.
	Kind     v1alpha1.WorkloadKind
	Workload string
	// Container is its name in the pod template; methods about a whole workload do not use it.
	Container string
}

// Options of a Store.
type Options struct {
	// Dial makes a source from its settings. It is called before the first read, after a failure, and once an hour
	// (redialAfter), without Store.mutex.
	Dial usage.Dialer
	// Changed is called once for each namespace with new data, after a refresh or after a slow source has answered.
	// Calls never run concurrently.
	Changed func(namespace string)
	// Patience is how long a refresh waits for slow sources. 0: DefaultPatience.
	Patience time.Duration
	// Parallel is how many reads start at the same time; 0: 8. With 1, sources answer in a known order.
	Parallel int
	// Forgets reports whether a source cannot return the whole past again after a restart, so that its histories need
	// checkpoints; nil: no source does.
	Forgets func(usage.SourceSettings) bool
	// Scraped returns how often a source measures; 0: it is not known. nil: it is not known of any.
	Scraped func(usage.SourceSettings) time.Duration
	// Dropped is called with the samples that the store itself drops, by reason; each counts once. It must not call the
	// store. nil: they are not counted.
	Dropped func(usage.SourceSettings, map[usage.Drop]int)
	// Most is the upper bound of values of a checkpoint; nil: no node is known.
	Most func() usage.Most
	// MaxBytes bounds the stored values. Values beyond it, or beyond a namespace's share of it, are dropped and
	// counted. 0: DefaultMaxBytes.
	MaxBytes int64
}

// DefaultMaxBytes has room for 150,000 containers with a week of 5-minute steps.
const DefaultMaxBytes = 512 << 20

// DefaultPatience is the usual time limit of a query of a Prometheus server.
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
	// mutex guards all fields below, and every pool, index, track, history and share. It is never held while a source
	// is read.
	mutex sync.RWMutex
	// asking has the sources with a query in progress. turn counts the queries to all sources.
	asking map[usage.Digest]bool
	turn   int64
	// interests maps each policy to the pool that holds its interest.
	interests map[owner]usage.Digest
	pools     map[usage.Digest]*pool
}

// owner identifies a policy. A policy has one interest at a time.
type owner struct{ namespace, policy string }

// New returns an empty Store.
func New(options Options) *Store {
	options.MaxBytes = cmp.Or(options.MaxBytes, DefaultMaxBytes)
	options.Patience = cmp.Or(options.Patience, DefaultPatience)
	options.Parallel = cmp.Or(options.Parallel, defaultParallel)
	if options.Changed == nil {
		options.Changed = func(string) {}
	}
	if options.Dropped == nil {
		options.Dropped = func(usage.SourceSettings, map[usage.Drop]int) {}
	}
	if options.Scraped == nil {
		options.Scraped = func(usage.SourceSettings) time.Duration { return 0 }
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

// mostWays is how many different settings the policies of one namespace may use to read usage. Each one costs its own
// queries.
const mostWays = 8

// Want replaces the policy's previous interest. Newly wanted data is read at the next refresh. Data that no policy
// wants any more is released at once. The store keeps the interest: the caller must not change it afterwards. An
// unchanged interest costs almost nothing, so a policy may call Want at every reconcile.
//
// An error means that the namespace already reads with mostWays different settings; the policy then gets no history.
func (s *Store) Want(interest Interest) error {
	digest := interest.Source.Digest()
	of := owner{interest.Namespace, interest.Policy}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if before, known := s.interests[of]; known && before != digest {
		s.drop(of, before)
	}
	if s.ways(interest.Namespace, digest) > mostWays {
		return fmt.Errorf("the policies of namespace %s have %d different metricsSource settings already: use the settings of one of them", interest.Namespace, mostWays)
	}
	s.interests[of] = digest
	pool := s.pools[digest]
	if pool == nil {
		pool = newPool(interest.Source, s.options.Scraped(interest.Source), s.budget)
		s.pools[digest] = pool
	}
	pool.want(interest, pool.backfill.turn)
	return nil
}

// ways counts the different settings of the namespace, including another; it returns 0 if another is already in use.
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

// Forget removes the policy's interest.
func (s *Store) Forget(namespace, policy string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	of := owner{namespace, policy}
	if digest, known := s.interests[of]; known {
		s.drop(of, digest)
	}
}

// drop an interest, and its pool if it was the last one.
func (s *Store) drop(of owner, digest usage.Digest) {
	delete(s.interests, of)
	pool := s.pools[digest]
	pool.forget(of, pool.backfill.turn)
	if len(pool.namespaces) == 0 {
		delete(s.pools, digest)
	}
}

// greed bounds the bytes of one namespace to this multiple of the free bytes, the α of the paper below. A single
// namespace gets two thirds of the store. Five greedy namespaces get two elevenths each, and a later one still finds
// room, because they all share the free bytes.
//
// It is the dynamic threshold of shared packet buffers: A. K. Choudhury and E. L. Hahne, "Dynamic queue length
// thresholds for shared-memory packet switches", IEEE/ACM Transactions on Networking 6 (1998).
const greed = 2

// budget is the room for all histories of a store, in bytes. The store's mutex guards it and its shares.
//
// Invariant: left plus the sum of all held is the size of the store. left may be negative for a while, because the gaps
// of a block are stored even if its values find no room.
type budget struct {
	// left is the number of bytes that no namespace holds.
	left int64
	// shares of the namespaces with interests or held bytes.
	shares map[string]*share
}

func newBudget(size int64) *budget { return &budget{left: size, shares: map[string]*share{}} }

// share is one namespace's part of the budget, over all sources and policies.
type share struct {
	budget *budget
	// held bytes, of all sources.
	held int64
	// users counts the sources that the namespace uses.
	users int
}

// join returns the share of a namespace that starts to use a source.
func (b *budget) join(namespace string) *share {
	s := b.shares[namespace]
	if s == nil {
		s = &share{budget: b}
		b.shares[namespace] = s
	}
	s.users++
	return s
}

// leave gives up the use of a share by a source, after its histories were released.
func (b *budget) leave(namespace string) {
	s := b.shares[namespace]
	if s.users--; s.users == 0 {
		delete(b.shares, namespace)
	}
}

// left is how many more bytes the namespace may hold: the x with held + x = greed × (left − x).
func (s *share) left() int64 {
	return (greed*s.budget.left - s.held) / (1 + greed)
}

// take charges bytes; a negative number returns them.
func (s *share) take(bytes int64) {
	s.held += bytes
	s.budget.left -= bytes
}
