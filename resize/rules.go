// Package resize plans changes of running pods and says whether they may begin (KEP-1287, in-place update of pod
// resources). What becomes of a change that was sent is package resize/lifecycle's.
//
// A resize goes through these files in order:
//  1. plan.go with platform*.go: PlanFor turns wished sizes into a Plan that Kubernetes can carry out.
//  2. gates.go with input.go, narrow.go, errand.go: Admit passes the plan through every rule that may refuse it.
//  3. waves.go, share.go: which of a workload's plans begin together.
//  4. patch.go: the patch; classify.go: what the API server's answer to it means.
//  5. tries.go, lately.go: what is not tried again, and until when.
//
// floors.go reads the floors that are stored of a container, and target.go the size that it ends at (TargetFrom).
//
// The package is pure: it imports API types, reads no clock (now is an argument) and holds no client. It never
// sends a patch. Packages resize/lifecycle and resize/harm import it; it imports neither. Start reading with
// refusal.go, gates.go and waves.go.
package resize

import (
	"time"

	"attune.io/attune/api/v1alpha1"
)

// Rules are a policy's settings for changing running pods. All fields are set and validated where they are made
// (internal/policy); the functions of this package check none of them again.
type Rules struct {
	// Mode is the update type: OneShot, Canary and Auto resize running pods, every other one refuses (ReasonMode).
	Mode v1alpha1.UpdateType
	// Method is InPlaceOnly, or InPlaceOrRecreate, which allows the eviction of a pod whose growth its node
	// refuses.
	Method v1alpha1.ResizeMethod
	// Paused names the levels that paused the policy (cluster, namespace, policy); empty: not paused.
	Paused []string
	// Cooldown is the time between the end of one wave's watch and the next wave; 0: none. Reverts lengthen it
	// (CooldownLeft).
	Cooldown time.Duration
	// Observation is how long a verified resize is watched for harm.
	Observation time.Duration
	// AutoRevert puts a harmed pod back. Without it the harm is recorded and the pod keeps its new size.
	AutoRevert bool
	// CanaryPercent is the part of a workload's pods that try a new size first, in percent; at least one pod.
	CanaryPercent int
	// AutoPromote lets a size that the first wave survived go on to the other pods. Without it, mode Canary waits
	// for a person to promote it.
	AutoPromote bool
	// MaxConcurrent is the number of pods of a workload that may be resized or watched at once. It applies where
	// MaxConcurrentPercent is 0; less than 1 counts as 1.
	MaxConcurrent int
	// MaxConcurrentPercent is the same bound in percent of the workload's pods, at least one pod; 0: MaxConcurrent
	// applies.
	MaxConcurrentPercent int
	// Schedule holds the times at which new resizes may begin.
	Schedule Schedule
	// RateWindow of the throttling query: throttling is not judged earlier than this after a resize.
	RateWindow time.Duration
	// NodeEviction: pods that do not fit on their nodes may be evicted (strategy Node).
	NodeEviction bool
	// RaiseBeforeKill raises memory before an OOM kill; the modes Canary and Auto alone do (RaisesMemory).
	RaiseBeforeKill bool
	// Excluded containers are never changed.
	Excluded map[string]bool
}

// RaisesMemory reports whether a container that climbs towards its memory limit is raised before the kill.
func (r Rules) RaisesMemory() bool {
	return r.RaiseBeforeKill && (r.Mode == v1alpha1.UpdateCanary || r.Mode == v1alpha1.UpdateAuto)
}

// Schedule holds the windows in which new resizes start. The zero value is always open. It bounds only the
// beginning of a resize: watches and reverts go on at any time.
type Schedule struct {
	// Windows of the day; empty: the whole day.
	Windows []Window
	// Days on which windows begin; empty: every day.
	Days map[time.Weekday]bool
	// Location is the time zone of windows and days; nil: UTC.
	Location *time.Location
}

// Window is a span of the day, from Start to End in minutes after midnight. A window whose end is not after its
// start runs over midnight.
type Window struct{ Start, End int }
