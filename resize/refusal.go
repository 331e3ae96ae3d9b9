package resize

import (
	"fmt"
	"time"

	"attune.io/attune/recommender"
)

// Refusal says why a change is not made. It is a value, not an error: refusing is a result.
type Refusal struct {
	// Reason is a word that conditions, events and metrics carry.
	Reason string
	// Message is one sentence that says why, with the figures, and what would lift the refusal.
	Message string
	// Container that is left out; empty where the refusal concerns the pod.
	Container string
	// Resource, if the refusal concerns one alone.
	Resource *recommender.Resource
	// Transient refusals lift by themselves, without anybody changing a spec or a setting.
	Transient bool
	// PodWide refusals stop the whole patch.
	PodWide bool
	// Until is when a transient refusal lifts, where time alone lifts it; zero: something else does.
	Until time.Time
}

// Error lets a refusal travel where an error is expected, such as into a log line.
func (r *Refusal) Error() string {
	if r.Container != "" {
		return fmt.Sprintf("%s: container %s: %s", r.Reason, r.Container, r.Message)
	}
	return fmt.Sprintf("%s: %s", r.Reason, r.Message)
}

// refuse stops a whole patch until somebody changes something.
func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...), PodWide: true}
}

// wait stops a whole patch for now.
func wait(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...), PodWide: true, Transient: true}
}

// waitUntil stops a whole patch until a time.
func waitUntil(until time.Time, reason, format string, args ...any) *Refusal {
	refusal := wait(reason, format, args...)
	refusal.Until = until
	return refusal
}

// refuseMove and waitMove concern one container, refuseOf one resource of it; the caller names it.
func refuseMove(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func waitMove(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...), Transient: true}
}

func refuseOf(r recommender.Resource, reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Resource: &r, Message: fmt.Sprintf(format, args...)}
}
