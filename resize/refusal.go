package resize

import (
	"fmt"
	"time"

	"attune.io/attune/recommender"
)

// Refusal is the reason why a change is not made. It is a result and not an error: nothing went wrong.
type Refusal struct {
	// Reason is one word for conditions, events and metrics (reasons.go).
	Reason string
	// Message is one sentence with the reason, the figures and what would lift the refusal.
	Message string
	// Container is the one that is left out; empty where the refusal concerns the pod.
	Container string
	// Resource is set where the refusal concerns one resource only; nil: both.
	Resource *recommender.Resource
	// Transient is true where the refusal lifts by itself, without a change of a spec or a setting.
	Transient bool
	// PodWide is true where the refusal stops the whole patch.
	PodWide bool
	// Until is when a transient refusal lifts by time alone; zero: an event lifts it.
	Until time.Time
}

// Error makes a refusal usable as an error, for instance in a log line.
func (r *Refusal) Error() string {
	if r.Container != "" {
		return fmt.Sprintf("%s: container %s: %s", r.Reason, r.Container, r.Message)
	}
	return fmt.Sprintf("%s: %s", r.Reason, r.Message)
}

// refuse stops a whole patch until a spec or a setting changes.
func Refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...), PodWide: true}
}

// wait stops a whole patch for now.
func RefuseForNow(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...), PodWide: true, Transient: true}
}

// waitUntil stops a whole patch until a time.
func waitUntil(until time.Time, reason, format string, args ...any) *Refusal {
	refusal := RefuseForNow(reason, format, args...)
	refusal.Until = until
	return refusal
}

// refuseMove and waitMove concern one container, refuseOf one resource of it. The caller sets the container's name
// (permitted, narrowed).
func refuseMove(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func waitMove(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...), Transient: true}
}

func refuseOf(r recommender.Resource, reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Resource: &r, Message: fmt.Sprintf(format, args...)}
}
