// Package event has Kubernetes events as values, and the history that the web page shows. It is pure: callers pass the
// sink that sends events, and the time.
//
//   - event.go: decisions create events; a Recorder sends them and suppresses repetitions.
//   - sent.go: a SentStore keeps the last events that this process sent about each workload. SentStore.Keep wraps the
//     Recorder's sink, so that attune needs no permission to list events.
//   - trail.go: a TrailStore keeps how requests, limits and targets of containers changed: objects have only current
//     values.
//
// Both stores have a size limit in bytes and are lost with the process.
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

	"attune.io/attune/internal/clip"
)

// Event is a Kubernetes event without the object that it is about.
type Event struct {
	// Type is Normal or Warning.
	Type    string
	Reason  string
	Message string
}

// Normal returns an event of type Normal. Its message is one line without control characters: it may quote other
// programs. It has at most mostMessage bytes.
func Normal(reason, format string, args ...any) Event {
	return Event{corev1.EventTypeNormal, reason, messageOf(format, args)}
}

// Warning returns an event of type Warning: a user may need to act. Its message is like that of Normal.
func Warning(reason, format string, args ...any) Event {
	return Event{corev1.EventTypeWarning, reason, messageOf(format, args)}
}

// mostMessage is the API server's limit of the note of an event, in bytes: it rejects a longer one.
const mostMessage = 1024

func messageOf(format string, args []any) string {
	message := clip.Line(fmt.Sprintf(format, args...))
	if len(message) <= mostMessage {
		return message
	}
	return clip.Marked(message, mostMessage-len("…"))
}

// Sink receives events, such as the recorder of controller-runtime.
type Sink interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// quiet is the time during which the same event about the same object is not repeated.
const quiet = 10 * time.Minute

// sweptEach is the interval at which fresh removes old entries. A sweep for each event would be too slow: 40,000 events
// in 10 minutes took 40 s of CPU time.
const sweptEach = time.Minute

// Recorder sends events, the same event about the same object at most once in 10 minutes. It is safe for concurrent
// use.
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

// NewRecorder returns a Recorder that sends to sink.
func NewRecorder(sink Sink, clock clock.PassiveClock) *Recorder {
	return &Recorder{sink: sink, clock: clock, sent: map[key]time.Time{}}
}

// About is the object that an event is about, with its UID.
type About interface {
	runtime.Object
	GetUID() types.UID
}

// Send sends events about an object. related is a second object that the events name; nil if there is no such object. A
// nil Recorder sends nothing.
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

// fresh records that an event is sent, and regularly removes entries older than quiet.
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
