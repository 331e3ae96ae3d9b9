// Package resize answers: how and when may a running pod change? It is pure
// over the Kubernetes API types and holds no client: it reads a pod, plans a
// change, gates it, and says what became of it (resize/harm: what it did).
package resize

import (
	"time"

	"attune.io/attune/api/v1alpha1"
)

// Rules are a policy's settings for changing running pods; complete, and validated where they are
// made (internal/policy).
type Rules struct {
	Mode   v1alpha1.UpdateType
	Method v1alpha1.ResizeMethod
	// Paused names the levels that paused the policy (cluster, namespace, policy); empty: not paused.
	Paused []string
	// Cooldown between the end of a wave's watch and the next wave.
	Cooldown time.Duration
	// Observation is how long a verified resize is watched; CanaryObservation that of the first wave.
	Observation       time.Duration
	CanaryObservation time.Duration
	AutoRevert        bool
	CanaryPercent     int
	AutoPromote       bool
	// MaxConcurrent is a number of pods, or a percentage of a workload's pods where MaxConcurrentPercent
	// is set; at least one pod.
	MaxConcurrent        int
	MaxConcurrentPercent int
	Schedule             Schedule
	// RateWindow of the throttling query: throttling is not judged earlier than this after a resize.
	RateWindow time.Duration
	// NodeEviction: pods that do not fit on their nodes may be evicted (strategy Node).
	NodeEviction bool
	// Excluded containers are never changed.
	Excluded map[string]bool
}

// Schedule holds the windows in which new resizes start; without windows and days it is always open.
type Schedule struct {
	Windows  []Window
	Days     map[time.Weekday]bool
	Location *time.Location
}

// Window is a span of the day in minutes after midnight; one whose end is before its start runs over
// midnight.
type Window struct{ Start, End int }
