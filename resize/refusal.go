package resize

import (
	"fmt"
	"time"
)

// Refusal is the reason why a change is not made. It is a result and not an error.
type Refusal struct {
	// Reason is one word for conditions, events and metrics (reasons.go).
	Reason string
	// Message is one sentence with the reason, the figures and the change that would lift the refusal.
	Message string
	// Container is the container without the change; empty if the refusal concerns the pod.
	Container string
	// Transient is true if the refusal lifts by itself, without a change of a spec or a setting.
	Transient bool
	// Until is when a transient refusal lifts by time alone; zero: an event lifts it.
	Until time.Time
}

// Refuse blocks a plan, or one container of it, until a spec or a setting changes. A rule that refuses a container's
// move does not set the container: its caller does (permitted, narrowed).
func Refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// RefuseForNow is Refuse with a transient refusal.
func RefuseForNow(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...), Transient: true}
}

// waitUntil is RefuseForNow with the time at which the refusal lifts.
func waitUntil(until time.Time, reason, format string, args ...any) *Refusal {
	refusal := RefuseForNow(reason, format, args...)
	refusal.Until = until
	return refusal
}
