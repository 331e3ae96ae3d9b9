// Package resize plans changes of running pods and decides whether they may begin (KEP-1287, in-place update of pod
// resources). Package resize/lifecycle follows the resizes that were sent.
//
// A resize goes through these files in order:
// 1. plan.go with platform*.go: PlanFor turns wished sizes into a Plan that Kubernetes can carry out.
// 2. gates.go with input.go, narrow.go, errand.go: Admit checks the plan against every rule that may refuse it.
// 3. waves.go, share.go: the plans of a workload that begin together.
// 4. patch.go: the patch; classify.go: the meaning of the API server's answer.
// 5. tries.go, lately.go: failed resizes, and until when they are not tried again; retarget.go: the same
// for the target of an HPA.
//
// floors.go reads the stored floors of a container, and target.go computes its final size (TargetFrom).
//
// The package is pure: it imports API types, reads no clock (now is an argument) and holds no client. It never sends a
// patch. Packages resize/lifecycle and resize/harm import it; it imports neither. Start reading with refusal.go,
// gates.go and waves.go.
package resize

import (
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// Rules are a policy's settings for changing running pods. internal/policy sets and validates all fields; this package
// does not check them again.
type Rules struct {
	// Mode is the update type: OneShot, Canary and Auto resize running pods, all others refuse (ReasonMode).
	Mode v1alpha1.UpdateType
	// Method is InPlaceOnly, or InPlaceOrRecreate, which allows the eviction of a pod whose growth its node refuses.
	Method v1alpha1.ResizeMethod
	// Paused names the levels that paused the policy (cluster, namespace, policy); empty: not paused.
	Paused []string
	// Cooldown is the time between the end of a wave's observation and the next resize step; 0: no cooldown. Waves of the
	// same step do not wait for it. Reverts extend it (CooldownLeft).
	Cooldown time.Duration
	// Observation is how long attune observes a verified resize for regressions.
	Observation time.Duration
	// AutoRevert reverts a pod with a regression. Without it the regression is recorded and the pod keeps its new size.
	AutoRevert bool
	// CanaryPercent is the part of a workload's pods that get a new size first, in percent; at least one pod.
	CanaryPercent int
	// AutoPromote allows the other pods to get a size after the first wave had no regression. Without it, in mode
	// Canary, a user has to promote the size.
	AutoPromote bool
	// MaxConcurrent is the number of pods of a workload that may be resized or observed at once. It applies if
	// MaxConcurrentPercent is 0; less than 1 counts as 1.
	MaxConcurrent int
	// MaxConcurrentPercent is the same limit in percent of the workload's pods, at least one pod; 0: MaxConcurrent
	// applies.
	MaxConcurrentPercent int
	// Schedule holds the times at which new resizes may begin.
	Schedule Schedule
	// RateWindow of the throttling query: throttling is not judged earlier than this after a resize.
	RateWindow time.Duration
	// Boost is how long a startup boost lasts at most; 0: the policy has none.
	Boost time.Duration
	// NodeEviction: pods that do not fit on their nodes may be evicted (strategy Node).
	NodeEviction bool
	// RaiseBeforeKill raises memory before an OOM kill; only the modes Canary and Auto do so (RaisesMemory).
	RaiseBeforeKill bool
	// Excluded containers are never changed (Excludes). false: a container that EveryContainer does not exclude.
	Excluded map[string]bool
	// Containers are the rules of single containers (Of).
	Containers map[string]ContainerRules
	// Guardrails are the SLO queries that check a resize during and at the end of its observation period; invalid ones are left out.
	Guardrails []v1alpha1.SLOGuardrail
}

// EveryContainer stands for each container without an entry of its own.
const EveryContainer = "*"

// ContainerRules are the rules of one container.
type ContainerRules struct {
	// RaiseBeforeKill is as in Rules.
	RaiseBeforeKill bool
	// Boost is how long the startup boost of the container lasts; 0: it has none.
	Boost time.Duration
	// Uncontrolled is the field by which the policy leaves a resource as it is; empty: attune sizes it.
	Uncontrolled [2]string
}

// Excludes reports whether the policy never changes a container: by its name, otherwise by EveryContainer.
func (r *Rules) Excludes(container string) bool {
	excluded, named := r.Excluded[container]
	return excluded || !named && r.Excluded[EveryContainer]
}

// Of returns the rules of a container.
func (r *Rules) Of(container string) ContainerRules {
	if of, named := r.Containers[container]; named {
		return of
	}
	if of, named := r.Containers[EveryContainer]; named {
		return of
	}
	return ContainerRules{RaiseBeforeKill: r.RaiseBeforeKill, Boost: r.Boost}
}

// RaisesMemory reports whether a container that climbs towards its memory limit is raised before the kill.
func (r *Rules) RaisesMemory(container string) bool {
	if r.Mode != v1alpha1.UpdateCanary && r.Mode != v1alpha1.UpdateAuto || r.Excludes(container) {
		return false
	}
	of := r.Of(container)
	return of.RaiseBeforeKill && of.Uncontrolled[recommender.Memory] == ""
}

// Schedule holds the windows in which new resizes start. The zero value is always open. It limits only the start of a
// resize: observation and reverts go on at any time.
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

// AwaitsPromotion reports whether a user has to promote a size before pods after the first wave are lowered to it.
func (r Rules) AwaitsPromotion() bool { return r.Mode == v1alpha1.UpdateCanary && !r.AutoPromote }
