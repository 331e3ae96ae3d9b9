// Package event has Kubernetes events as values, and what the web page shows of the past. It is pure: callers pass the sink that
// sends events, and the time.
//
//   - event.go: decisions make events; a Recorder sends them, and sends the same event once.
//   - sent.go: a SentStore keeps the last events that this process sent about each workload. SentStore.Keep wraps the Recorder's
//     sink, so that no right to list events is needed.
//   - trail.go: a TrailStore keeps how requests, limits and targets of containers changed: objects hold only the present ones.
//
// Both stores are bounded in bytes and lost with the process.
package event

import (
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Event is one thing to tell.
type Event struct {
	// Type is Normal or Warning.
	Type    string
	Reason  string
	Message string
}

// Normal tells of something that went well.
func Normal(reason, format string, args ...any) Event {
	return Event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

// Warning tells of something that a person may want to look at.
func Warning(reason, format string, args ...any) Event {
	return Event{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}

// Sink takes events, such as the recorder of controller-runtime.
type Sink interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// quiet is how long the same event about the same object is not repeated.
const quiet = 10 * time.Minute

// sweptEach is how often those whose quiet time is over are forgotten. With each event it would cost the more the more are
// remembered: 40,000 events in ten minutes took 40 s of a processor.
const sweptEach = time.Minute

// Recorder sends events, the same one about the same object at most every 10 minutes. It is safe for
// concurrent use.
type Recorder struct {
	sink  Sink
	clock clock.PassiveClock

	mutex sync.Mutex
	sent  map[key]time.Time
	swept time.Time
}

type key struct {
	about types.UID
	event Event
}

// NewRecorder sends to sink.
func NewRecorder(sink Sink, clock clock.PassiveClock) *Recorder {
	return &Recorder{sink: sink, clock: clock, sent: map[key]time.Time{}}
}

// About is what an event is about: an object with its uid.
type About interface {
	runtime.Object
	GetUID() types.UID
}

// Send sends events about an object, and names a related one in them (nil: none). A nil recorder sends nothing.
func (r *Recorder) Send(about About, related runtime.Object, events ...Event) {
	if r == nil {
		return
	}
	for _, e := range events {
		if r.fresh(key{about.GetUID(), e}) {
			r.sink.Eventf(about, related, e.Type, e.Reason, "RightSize", "%s", e.Message)
		}
	}
}

// fresh remembers that an event is sent, and now and then forgets those whose quiet time is over.
func (r *Recorder) fresh(k key) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.clock.Now()
	if last, ok := r.sent[k]; ok && now.Sub(last) < quiet {
		return false
	}
	if ago := now.Sub(r.swept); ago >= sweptEach || ago < 0 {
		maps.DeleteFunc(r.sent, func(_ key, at time.Time) bool { return now.Sub(at) >= quiet })
		r.swept = now
	}
	r.sent[k] = now
	return true
}
