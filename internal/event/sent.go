package event

import (
	"container/list"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
)

const (
	// mostSentEvents is the limit per workload, mostSentText the limit per message in bytes. Both exceed an Event of
	// the API.
	mostSentEvents, mostSentText = 10, 1024
	// sentOverhead is the memory of a workload or of an event without its texts, in bytes.
	sentOverhead = 256
)

// SentEvent is an event that was sent. Pod is the name of the pod that it is about; empty if it is about the workload.
type SentEvent struct {
	At                         time.Time
	Type, Reason, Pod, Message string
}

func (e SentEvent) bytes() int {
	return sentOverhead + len(e.Type) + len(e.Reason) + len(e.Pod) + len(e.Message)
}

// SentStore keeps events by the AttuneRecommendation of the workload. It is safe for concurrent use.
type SentStore struct {
	most  int
	clock clock.PassiveClock

	mutex sync.Mutex
	// of has workloads by the name of the recommendation. order has the same workloads, the one without new events for
	// the longest time first.
	of    map[types.NamespacedName]*list.Element
	order *list.List
	bytes int
}

type sentEvents struct {
	name types.NamespacedName
	// events are sorted newest first.
	events []SentEvent
}

// NewSentStore returns a SentStore with a size limit in bytes.
func NewSentStore(most int, clock clock.PassiveClock) *SentStore {
	return &SentStore{most: most, clock: clock, of: map[types.NamespacedName]*list.Element{}, order: list.New()}
}

// Keep returns a sink that stores events and passes them to next. A nil SentStore returns next.
func (s *SentStore) Keep(next Sink) Sink {
	if s == nil {
		return next
	}
	return keepingSink{s, next}
}

type keepingSink struct {
	store *SentStore
	next  Sink
}

// Eventf implements event.Sink. An event belongs to a workload if its object or its related object is the workload's
// recommendation.
func (k keepingSink) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	k.next.Eventf(regarding, related, kind, reason, action, note, args...)
	e := SentEvent{At: k.store.clock.Now(), Type: kind, Reason: reason, Message: clip.Marked(fmt.Sprintf(note, args...), mostSentText)}
	rec, itself := regarding.(*v1alpha1.AttuneRecommendation)
	if !itself {
		rec, _ = related.(*v1alpha1.AttuneRecommendation)
		if named, ok := regarding.(interface{ GetName() string }); ok {
			e.Pod = named.GetName()
		}
	}
	if rec != nil {
		k.store.add(types.NamespacedName{Namespace: rec.Namespace, Name: rec.Name}, e)
	}
}

// add adds an event. If the store is full, it drops the workloads without new events for the longest time.
func (s *SentStore) add(name types.NamespacedName, e SentEvent) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	of := &sentEvents{name: name}
	if known := s.of[name]; known != nil {
		of = known.Value.(*sentEvents)
		s.drop(known)
	}
	of.events = slices.Insert(of.events, 0, e)
	of.events = slices.Clip(of.events[:min(len(of.events), mostSentEvents)])
	for s.order.Len() > 0 && s.bytes+of.bytes() > s.most {
		s.drop(s.order.Front())
	}
	if of.bytes() > s.most {
		return
	}
	s.of[name] = s.order.PushBack(of)
	s.bytes += of.bytes()
}

func (s *SentStore) drop(at *list.Element) {
	gone := s.order.Remove(at).(*sentEvents)
	delete(s.of, gone.name)
	s.bytes -= gone.bytes()
}

func (w *sentEvents) bytes() int {
	bytes := sentOverhead + len(w.name.Namespace) + len(w.name.Name)
	for _, e := range w.events {
		bytes += e.bytes()
	}
	return bytes
}

// Of returns the stored events about a workload, newest first; nil for a nil SentStore.
func (s *SentStore) Of(rec *v1alpha1.AttuneRecommendation) []SentEvent {
	if s == nil {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if known := s.of[types.NamespacedName{Namespace: rec.Namespace, Name: rec.Name}]; known != nil {
		return slices.Clone(known.Value.(*sentEvents).events)
	}
	return nil
}
