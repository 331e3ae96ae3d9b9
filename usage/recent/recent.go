// Package recent keeps the recent usage of each pod of some workloads: the base demand of the strategy Node.
// usage/history keeps the longer histories of workloads, where each step has only the highest replica.
//
// The data takes this path: Store.Want records which workloads a policy wants. Store.Refresh queries each source for
// the time since the last refresh, in steps of 30 seconds. take adds the answer to one node.Recent per container.
// Store.Base and Store.CPU read from it. A container without samples in its longest window is dropped.
//
// The package stores nothing: after a restart it reads the last minutes from its sources again. Start reading at
// Refresh.
package recent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/usage"
)

const (
	// step of the queries.
	step = 30 * time.Second
	// rateWindow is the longest window of a CPU rate, because the P75 of 10 minutes needs more than one or two values.
	rateWindow = 2 * time.Minute
	// mostContainers is the most containers that are followed: 30 MiB. Containers beyond it keep their current
	// requests. One namespace may have greed times the free places (see usage/history).
	mostContainers = 65_536
	greed          = 2
	// patience is how long a refresh waits for its sources.
	patience = 20 * time.Second
)

// Interest of one policy. A policy has one interest at a time.
type Interest struct {
	// Namespace and Policy identify the policy.
	Namespace, Policy string
	// Source has the settings by which usage is read. Policies with equal settings share the queries.
	Source usage.SourceSettings
	// Workloads are the names of the workloads whose pods are followed.
	Workloads []string
}

// Store keeps recent usage. It is safe for concurrent use: mutex guards all unexported fields except asking, and except
// dial and room, which New sets. It is never held while a source is read.
type Store struct {
	// There, if set, reports whether the API server has a pod. Without it, a server that a policy names could fill the
	// store with pods that do not exist. It is called under mutex, so it must not call the Store.
	There func(namespace, pod string) bool
	// Patience is how long a refresh waits for its sources: 20 s, less in tests.
	Patience time.Duration

	dial usage.Dialer
	// asking has the sources that have not answered yet.
	asking sync.Map

	mutex sync.RWMutex
	// interests by policy, sources by their settings, and of has the usage of each container.
	interests map[owner]Interest
	sources   map[usage.Digest]*source
	of        map[place]*node.Recent
	// room is the most containers that are followed: mostContainers, less in tests.
	room int
	// held counts the followed containers by namespace. left has the containers that found no room in the last refresh.
	// told has the namespaces that were already reported.
	held map[string]int
	left map[string]map[place]bool
	told map[string]bool
	// unfollowed counts the containers that found no room in the last completed refresh, by namespace.
	unfollowed map[string]int
	// strangers counts the containers of nonexistent pods that a source returned in the last refresh.
	strangers map[string]int
}

type owner struct{ namespace, policy string }

type place struct{ namespace, pod, container string }

// source is a dialled source. until is the time up to which it has been read; zero: not yet.
type source struct {
	usage.Source
	until time.Time
	// unread has the workloads that have not been queried so far.
	unread map[podsOf]bool
}

// podsOf a workload.
type podsOf struct{ namespace, workload string }

// New returns an empty Store. dial makes sources; it is called without mutex.
func New(dial usage.Dialer) *Store {
	return &Store{
		Patience: patience, dial: dial, room: mostContainers,
		interests: map[owner]Interest{}, sources: map[usage.Digest]*source{}, of: map[place]*node.Recent{},
		held: map[string]int{}, left: map[string]map[place]bool{}, told: map[string]bool{},
		strangers: map[string]int{},
	}
}

// Want replaces the policy's previous interest. Nothing is read before the next Refresh. It reads the pods of a new
// workload from the beginning of the window. The store keeps the interest: the caller must not change it.
func (s *Store) Want(interest Interest) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	of := owner{interest.Namespace, interest.Policy}
	before, digest := s.interests[of], interest.Source.Digest()
	if before.Source.Digest() != digest {
		before.Workloads = nil
	}
	if known := s.sources[digest]; known != nil && !slices.Equal(before.Workloads, interest.Workloads) {
		// Pods of a new workload are read from the beginning.
		for _, name := range interest.Workloads {
			if !slices.Contains(before.Workloads, name) {
				known.unread[podsOf{interest.Namespace, name}] = true
			}
		}
	}
	s.interests[of] = interest
}

// Forget removes the policy's interest. A later Refresh drops the samples of its pods when they are too old.
func (s *Store) Forget(namespace, policy string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.interests, owner{namespace, policy})
}

// Base returns the base demand of a container, in millicores or bytes; false if less than half of its window was
// measured. See node.Recent for the windows and percentiles.
func (s *Store) Base(namespace, pod, container string, r recommender.Resource, now time.Time) (recommender.Usage, bool) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	of := s.of[place{namespace, pod, container}]
	if of == nil {
		return 0, false
	}
	return of.Base(r, now)
}

// CPU returns the average CPU need of a container since a time, in millicores, including its waiting time for CPU if
// that is measured. Only rates whose window begins after since count. It returns false without such a rate.
func (s *Store) CPU(namespace, pod, container string, since, now time.Time) (recommender.Usage, bool) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	of := s.of[place{namespace, pod, container}]
	if of == nil {
		return 0, false
	}
	return of.Mean(recommender.CPU, since.Add(rateWindow), now)
}

// Followed counts the followed containers, and by namespace the containers that found no room in the last refresh. The
// latter keep their current requests.
func (s *Store) Followed() (containers int, refused map[string]int) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	return len(s.of), maps.Clone(s.unfollowed)
}

// Refused reports whether containers of a namespace found no room in the last refresh.
func (s *Store) Refused(namespace string) bool {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	return s.unfollowed[namespace] > 0
}

// Refresh queries all sources concurrently for new data. A source that fails is dialled again, and the next refresh
// also reads the missing time. The read of a source slower than the store's patience continues in the background. The
// source gets no other query until then, and delays no other source. The error joins the failures of all sources, and
// the namespaces without enough room.
func (s *Store) Refresh(ctx context.Context, now time.Time) error {
	by := s.bySource()
	answers := make(chan error, len(by))
	asked := 0
	for digest, interests := range by {
		if _, already := s.asking.LoadOrStore(digest, true); already {
			continue
		}
		asked++
		go func() {
			err := s.read(ctx, digest, interests, now)
			s.asking.Delete(digest)
			answers <- err
		}()
	}
	over := time.NewTimer(s.Patience)
	defer over.Stop()
	var failures []error
wait:
	for range asked {
		select {
		case err := <-answers:
			failures = append(failures, err)
		case <-over.C:
			failures = append(failures, fmt.Errorf("a usage source did not answer within %s", s.Patience))
			break wait
		}
	}
	s.forget(now)
	return errors.Join(append(failures, s.crowded())...)
}

// crowded returns an error for each namespace that has more containers than there is room for, or whose source reports
// pods that do not exist. A namespace that was in the last error is not repeated while its problem continues.
func (s *Store) crowded() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var failures []error
	before := s.told
	s.told, s.unfollowed = map[string]bool{}, map[string]int{}
	for _, namespace := range slices.Sorted(maps.Keys(s.left)) {
		s.told[namespace], s.unfollowed[namespace] = true, len(s.left[namespace])
		if !before[namespace] {
			failures = append(failures, fmt.Errorf("%d containers of namespace %s are not followed: attune follows at most %d containers, and the namespace has used its share", len(s.left[namespace]), namespace, s.room))
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(s.strangers)) {
		s.told[namespace] = true
		if !before[namespace] {
			failures = append(failures, fmt.Errorf("the usage source of namespace %s reports %d containers of pods that do not exist: attune ignores them", namespace, s.strangers[namespace]))
		}
	}
	clear(s.left)
	clear(s.strangers)
	return errors.Join(failures...)
}

// bySource groups the interests by their source.
func (s *Store) bySource() map[usage.Digest][]Interest {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	by := map[usage.Digest][]Interest{}
	for _, interest := range s.interests {
		digest := interest.Source.Digest()
		by[digest] = append(by[digest], interest)
	}
	return by
}

// read queries one source for new data. Workloads that are new since the last read get a query of their own, back to
// the beginning of the longest window; then one query covers all. After an error the source is dialled again next time.
func (s *Store) read(ctx context.Context, digest usage.Digest, interests []Interest, now time.Time) error {
	from, err := s.source(digest, interests[0].Source)
	if err != nil {
		return err
	}
	last := usage.StepOf(now, step)
	oldest := usage.StepOf(now.Add(-node.BaseMemoryWindow), step)
	if from.until.After(now) {
		from.until = time.Time{} // the clock was ahead and was corrected
	}
	first, unread := max(oldest, usage.StepOf(from.until, step)), s.unread(from)
	if first > oldest && len(unread) > 0 {
		_, err = from.Read(ctx, queryOf(only(interests, unread), oldest, first), s.take)
	}
	if err == nil {
		query := queryOf(interests, first, last)
		query.Counted = from.until
		_, err = from.Read(ctx, query, s.take)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err != nil {
		delete(s.sources, digest)
		return err
	}
	from.until = now
	for of := range unread {
		delete(from.unread, of)
	}
	return nil
}

// unread returns the workloads that a source was not queried for before.
func (s *Store) unread(of *source) map[podsOf]bool {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	return maps.Clone(of.unread)
}

// only keeps some workloads of the interests.
func only(interests []Interest, some map[podsOf]bool) (out []Interest) {
	for _, in := range interests {
		in.Workloads = slices.DeleteFunc(slices.Clone(in.Workloads), func(name string) bool { return !some[podsOf{in.Namespace, name}] })
		if len(in.Workloads) > 0 {
			out = append(out, in)
		}
	}
	return out
}

// source returns the source of the settings, and dials it if it is not known.
func (s *Store) source(digest usage.Digest, settings usage.SourceSettings) (*source, error) {
	s.mutex.RLock()
	known := s.sources[digest]
	s.mutex.RUnlock()
	if known != nil {
		return known, nil
	}
	dialled, err := s.dial(settings)
	if err != nil {
		return nil, err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.sources[digest] = &source{Source: dialled, unread: map[podsOf]bool{}}
	return s.sources[digest], nil
}

// queryOf makes the query for the steps from first to last. Interests of one source have the same rate window.
func queryOf(interests []Interest, first, last int64) usage.Query {
	namespaces, prefixes := map[string]bool{}, map[string]bool{}
	for _, interest := range interests {
		namespaces[interest.Namespace] = true
		for _, name := range interest.Workloads {
			prefixes[usage.PodPrefix(name)] = true
		}
	}
	return usage.Query{
		Namespaces: slices.Sorted(maps.Keys(namespaces)), PodPrefixes: slices.Sorted(maps.Keys(prefixes)),
		Start: usage.StepEnd(first, step), End: usage.StepEnd(last, step), Step: step,
		RateWindow: min(interests[0].Source.RateWindow, rateWindow), Waited: true,
	}
}

// take receives one series of an answer. A new container needs room: its namespace may have greed times the free
// places, as in usage/history's budget. Containers that are already followed stay.
func (s *Store) take(series usage.Series) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	at := place{series.Namespace, series.Pod, series.Container}
	of := s.of[at]
	if of == nil {
		if s.There != nil && !s.There(at.namespace, at.pod) {
			s.strangers[at.namespace]++
			return
		}
		if s.held[at.namespace] >= greed*(s.room-len(s.of)) {
			s.noRoom(at)
			return
		}
		of = node.NewRecent()
		s.of[at] = of
		s.held[at.namespace]++
	}
	before, after, _ := series.AroundStart(series.CPU, usage.Startup(0), rateWindow)
	for _, samples := range [...][]usage.Sample{before, after} {
		for _, sample := range samples {
			of.Add(recommender.CPU, sample.Time(), recommender.Usage(sample.Value*1000))
		}
	}
	for _, sample := range series.Memory {
		of.Add(recommender.Memory, sample.Time(), recommender.Usage(sample.Value))
	}
}

// forget drops containers without measurements in the longest window: their pods are gone, or no policy wants them any
// more.
func (s *Store) forget(now time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for at, of := range s.of {
		if !of.Seen(now) {
			delete(s.of, at)
			if s.held[at.namespace]--; s.held[at.namespace] == 0 {
				delete(s.held, at.namespace)
			}
		}
	}
}

// noRoom records a container that is not followed. It records at most room of them for each namespace.
func (s *Store) noRoom(at place) {
	if s.left[at.namespace] == nil {
		s.left[at.namespace] = map[place]bool{}
	}
	if len(s.left[at.namespace]) < s.room {
		s.left[at.namespace][at] = true
	}
}

// NodeUsage has the latest CPU usage of nodes.
type NodeUsage interface {
	// Busy is the used fraction, 0 to 1, of a node's CPU; false if it was not measured since that time.
	Busy(node string, since time.Time) (float64, bool)
}

// Known answers from data that was read for other purposes: pod data of the strategy Node, node data of the load taint.
// A call queries no server. The zero value is not usable: Pods must be set.
type Known struct {
	// Pods is the store of the strategy Node.
	Pods *Store
	// Nodes has the measurements of the load taint; nil if no node's load is measured.
	Nodes NodeUsage
}

// CPU returns the average CPU need of a container since a time, in millicores; false if unknown (see Store.CPU).
func (k Known) CPU(_ context.Context, namespace, pod, container string, since, now time.Time) (recommender.Usage, bool) {
	return k.Pods.CPU(namespace, pod, container, since, now)
}

// Busy returns the used fraction, 0 to 1, of a node's CPU since a time; false if it was not measured.
func (k Known) Busy(_ context.Context, node string, since, _ time.Time) (float64, bool) {
	if k.Nodes == nil {
		return 0, false
	}
	return k.Nodes.Busy(node, since)
}
