// Package recent keeps what each pod of some workloads used lately, by itself: the base demand of the
// strategy Node. usage/history keeps the workloads' longer histories, of their highest replicas alone.
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
	// step is that of what is asked for.
	step = 30 * time.Second
	// rateWindow is the longest for the rate of CPU: P75 of 10 minutes is to be more than one of two values.
	rateWindow = 2 * time.Minute
	// mostContainers are followed at once: 30 MiB. Others keep what they hold. One namespace may have greed times as many
	// as there is room left for (see usage/history).
	mostContainers = 65_536
	greed          = 2
	// patience is how long a refresh waits for its sources.
	patience = 20 * time.Second
)

// Interest is what one policy wants to know.
type Interest struct {
	Namespace, Policy string
	Source            usage.SourceSettings
	// Workloads are the names of those whose pods are followed.
	Workloads []string
}

// Store keeps recent usage. It is safe for concurrent use.
type Store struct {
	// There, where set, says whether a pod is there, as the API server has it: a server that a policy names may tell of any
	// number of others.
	There func(namespace, pod string) bool

	dial usage.Dialer

	mutex     sync.RWMutex
	interests map[owner]Interest
	sources   map[usage.Digest]*source
	of        map[place]*node.Recent
	patience  time.Duration
	room      int
	// asking are the sources that have not answered yet.
	asking map[usage.Digest]bool
	// held counts the containers that are followed, by namespace; left are those for which there was no room at the last
	// refresh, and told the namespaces of which that has been said.
	held map[string]int
	left map[string]map[place]bool
	told map[string]bool
	// unfollowed counts those for which there was no room at the last refresh that ended, by namespace.
	unfollowed map[string]int
	// strangers counts the containers of pods that are not there, of which a source has told at the last refresh.
	strangers map[string]int
}

type owner struct{ namespace, policy string }

type place struct{ namespace, pod, container string }

// source is one that is asked, and up to when it was.
type source struct {
	usage.Source
	until time.Time
	// unread are the workloads that were not asked for before then.
	unread map[podsOf]bool
}

// podsOf a workload.
type podsOf struct{ namespace, workload string }

// New is an empty Store.
func New(dial usage.Dialer) *Store {
	return &Store{
		dial: dial, patience: patience, room: mostContainers,
		interests: map[owner]Interest{}, sources: map[usage.Digest]*source{}, of: map[place]*node.Recent{},
		asking: map[usage.Digest]bool{}, held: map[string]int{}, left: map[string]map[place]bool{}, told: map[string]bool{},
		strangers: map[string]int{},
	}
}

// Want replaces what the policy wanted before.
func (s *Store) Want(interest Interest) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	of := owner{interest.Namespace, interest.Policy}
	before, digest := s.interests[of], interest.Source.Digest()
	if before.Source.Digest() != digest {
		before.Workloads = nil
	}
	if known := s.sources[digest]; known != nil && !slices.Equal(before.Workloads, interest.Workloads) {
		// Pods of a workload that is new are asked for from the beginning.
		for _, name := range interest.Workloads {
			if !slices.Contains(before.Workloads, name) {
				known.unread[podsOf{interest.Namespace, name}] = true
			}
		}
	}
	s.interests[of] = interest
}

// Forget what the policy wanted. What is known of its pods goes with the next refresh.
func (s *Store) Forget(namespace, policy string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.interests, owner{namespace, policy})
}

// Base demand of a container: false where less than half of its window was measured.
func (s *Store) Base(namespace, pod, container string, r recommender.Resource, now time.Time) (recommender.Usage, bool) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	of := s.of[place{namespace, pod, container}]
	if of == nil {
		return 0, false
	}
	return of.Base(r, now)
}

// CPU that a container has needed on average since a time, the time included that it waited for CPU where that is
// measured: only rates count that look back no further. False: there is none.
func (s *Store) CPU(namespace, pod, container string, since, now time.Time) (recommender.Usage, bool) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	of := s.of[place{namespace, pod, container}]
	if of == nil {
		return 0, false
	}
	return of.Mean(recommender.CPU, since.Add(rateWindow), now)
}

// Followed counts the containers that are followed, and by namespace those for which there was no room at the last
// refresh: they keep what they hold.
func (s *Store) Followed() (containers int, refused map[string]int) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	return len(s.of), maps.Clone(s.unfollowed)
}

// Refused says whether there was no room for containers of a namespace at the last refresh.
func (s *Store) Refused(namespace string) bool {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	return s.unfollowed[namespace] > 0
}

// Refresh asks each source for what is new, all at the same time. A source that fails is asked again next time, for what
// is missing as well; one that does not answer within the store's patience goes on by itself, is asked nothing else
// meanwhile, and delays nobody.
func (s *Store) Refresh(ctx context.Context, now time.Time) error {
	by := s.bySource()
	answers := make(chan error, len(by))
	asked := 0
	for digest, interests := range by {
		if !s.ask(digest) {
			continue
		}
		asked++
		go func() {
			err := s.read(ctx, digest, interests, now)
			s.answered(digest)
			answers <- err
		}()
	}
	over := time.NewTimer(s.patience)
	defer over.Stop()
	var failures []error
wait:
	for range asked {
		select {
		case err := <-answers:
			failures = append(failures, err)
		case <-over.C:
			failures = append(failures, fmt.Errorf("a source has not answered within %s", s.patience))
			break wait
		}
	}
	s.forget(now)
	return errors.Join(append(failures, s.crowded())...)
}

// ask notes that a source is being asked; false: it is already.
func (s *Store) ask(digest usage.Digest) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.asking[digest] {
		return false
	}
	s.asking[digest] = true
	return true
}

func (s *Store) answered(digest usage.Digest) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.asking, digest)
}

// crowded says once which namespaces have more containers than there is room for, and of which there are strangers.
func (s *Store) crowded() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var failures []error
	for _, namespace := range slices.Sorted(maps.Keys(s.left)) {
		if !s.told[namespace] {
			failures = append(failures, fmt.Errorf("%d containers of namespace %s are not followed: there is room for %d, and it has its share of them", len(s.left[namespace]), namespace, s.room))
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(s.strangers)) {
		if !s.told[namespace] {
			failures = append(failures, fmt.Errorf("the usage source of namespace %s tells of %d containers of pods that are not there: they are left out", namespace, s.strangers[namespace]))
		}
	}
	s.told, s.unfollowed = map[string]bool{}, map[string]int{}
	for namespace, of := range s.left {
		s.told[namespace], s.unfollowed[namespace] = true, len(of)
	}
	for namespace := range s.strangers {
		s.told[namespace] = true
	}
	clear(s.left)
	clear(s.strangers)
	return errors.Join(failures...)
}

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

func (s *Store) read(ctx context.Context, digest usage.Digest, interests []Interest, now time.Time) error {
	from, err := s.source(digest, interests[0].Source)
	if err != nil {
		return err
	}
	last := usage.StepOf(now, step)
	oldest := usage.StepOf(now.Add(-node.BaseMemoryWindow), step)
	if from.until.After(now) {
		from.until = time.Time{} // a clock was ahead, and is put right
	}
	first, unread := max(oldest, usage.StepOf(from.until, step)), s.unread(from)
	if first > oldest && len(unread) > 0 {
		_, err = from.Read(ctx, queryOf(only(interests, unread), oldest, first), s.take)
	}
	if err == nil {
		_, err = from.Read(ctx, queryOf(interests, first, last), s.take)
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

// unread are the workloads that a source was not asked for before.
func (s *Store) unread(of *source) map[podsOf]bool {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	return maps.Clone(of.unread)
}

// only some workloads of the interests.
func only(interests []Interest, some map[podsOf]bool) (out []Interest) {
	for _, in := range interests {
		in.Workloads = slices.DeleteFunc(slices.Clone(in.Workloads), func(name string) bool { return !some[podsOf{in.Namespace, name}] })
		if len(in.Workloads) > 0 {
			out = append(out, in)
		}
	}
	return out
}

// source dials where it has to.
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

// take is what a source yields to.
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
	for _, sample := range series.CPU {
		of.Add(recommender.CPU, sample.Time(), recommender.Usage(sample.Value*1000))
	}
	for _, sample := range series.Memory {
		of.Add(recommender.Memory, sample.Time(), recommender.Usage(sample.Value))
	}
}

// forget drops containers of which nothing was measured within the longest window: they are gone, or nobody
// wants to know of them.
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

// noRoom notes a container that is not followed.
func (s *Store) noRoom(at place) {
	if s.left[at.namespace] == nil {
		s.left[at.namespace] = map[place]bool{}
	}
	if len(s.left[at.namespace]) < s.room {
		s.left[at.namespace][at] = true
	}
}
