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
	// mostSentEvents are kept of a workload, and mostSentText bytes of a message: more than an Event of the API may have.
	mostSentEvents, mostSentText = 10, 1024
	// sentOverhead is what a workload, and an event, takes beside its texts, in bytes.
	sentOverhead = 256
)

// SentEvent is one that was sent. Pod is the name of the pod that it is about; empty: it is about the workload.
type SentEvent struct {
	At                         time.Time
	Type, Reason, Pod, Message string
}

func (e SentEvent) bytes() int {
	return sentOverhead + len(e.Type) + len(e.Reason) + len(e.Pod) + len(e.Message)
}

// SentStore keeps events by the AttuneRecommendation of the workload. Its methods may be called at the same time.
type SentStore struct {
	most  int
	clock clock.PassiveClock

	mutex sync.Mutex
	// of holds workloads by the name of the recommendation, order the same from the one that was told of least lately.
	of    map[types.NamespacedName]*list.Element
	order *list.List
	bytes int
}

type sentEvents struct {
	name types.NamespacedName
	// events are newest first.
	events []SentEvent
}

// NewSentStore makes a SentStore of at most that many bytes.
func NewSentStore(most int, clock clock.PassiveClock) *SentStore {
	return &SentStore{most: most, clock: clock, of: map[types.NamespacedName]*list.Element{}, order: list.New()}
}

// Keep returns a sink that keeps what is sent to another one. A nil SentStore keeps nothing.
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

// Eventf implements event.Sink. An event is about a workload where its object, or the related one, is its recommendation.
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

// add an event. The events of the workloads that were told of least lately make room.
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

// Of returns the events about a workload that are kept, newest first. A nil SentStore keeps none.
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

// Bytes is what the events take.
func (s *SentStore) Bytes() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.bytes
}
