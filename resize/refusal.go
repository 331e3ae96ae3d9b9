package resize

import (
	"fmt"
	"time"
)

// Refusal is the reason why a change is not made. It is a result and not an error: nothing went wrong.
type Refusal struct {
	// Reason is one word for conditions, events and metrics (reasons.go).
	Reason string
	// Message is one sentence with the reason, the figures and what would lift the refusal.
	Message string
	// Container is the one that is left out; empty where the refusal concerns the pod.
	Container string
	// Transient is true where the refusal lifts by itself, without a change of a spec or a setting.
	Transient bool
	// Until is when a transient refusal lifts by time alone; zero: an event lifts it.
	Until time.Time
}

// Refuse stops a patch, or one container of it, until a spec or a setting changes. What refuses a container's move does not
// name the container: its caller does (permitted, narrowed).
func Refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// RefuseForNow stops it for now.
func RefuseForNow(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...), Transient: true}
}

// waitUntil stops it until a time.
func waitUntil(until time.Time, reason, format string, args ...any) *Refusal {
	refusal := RefuseForNow(reason, format, args...)
	refusal.Until = until
	return refusal
}
