package resize

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

// gates are applied in order to a step towards a target; the first one that refuses gives the reason. Gates for
// what people set themselves come first: that reason is the one they look for, and these gates are the cheapest.
var gates = slices.Concat(setGates, []gate{RecordsFull}, paceGates)

// standingGates are the gates that depend neither on the change nor on the queue for records.
var standingGates = slices.Concat(setGates, paceGates)

var (
	// setGates check settings, annotations, rights and the pod's own open record; paceGates check the time, the
	// workload's progress and the node.
	setGates  = []gate{paused, mode, workloadPaused, optedOut, tooLarge, namespaceTerminating, verticalAutoscaler, noRights, recordOpen}
	paceGates = []gate{reverting, outsideSchedule, staleData, rollout, cooldown, nodePressure, nodeBlocked, neighboursWait}
)

// narrowings take a container's resource out of a plan, or bring it within what is allowed. They run in order,
// after all gates.
var narrowings = []func(*corev1.Pod, Plan, World) Plan{
	withoutExcluded, withoutHeld, withoutFailedLimits, withinLimitRanges,
}

// lastGates check what the narrowings left of the plan.
var lastGates = []func(*corev1.Pod, Plan, World) *Refusal{
	memorySoon, restartsLastReplica, disruptionBudgets, limitRange, quota, nodeRoom, triedLately,
}

// shared are the gates whose answer depends on what other plans take: space in the object, quota, room on the
// node. Fits repeats them just before a plan begins.
var shared = []func(*corev1.Pod, Plan, World) *Refusal{RecordsFull, quota, nodeRoom}

// Admit passes a plan through all gates and narrowings of its wave. The returned plan may be narrower than the
// argument; LeftOut names what is missing and why. Without a refusal the plan may begin, subject to Fits.
//
// The order matters. Gates run before narrowings, so that a paused workload reports the pause and not an excluded
// container. The QoS check runs after the narrowings, since leaving out one resource can change the class that the
// full plan kept.
func Admit(pod *corev1.Pod, plan Plan, world World) (Plan, *Refusal) {
	if plan.Urgent {
		plan = plan.AsUrgent()
	}
	first, narrowings, last := rulesOf(plan)
	if refusal := firstClosed(first, pod, plan, world); refusal != nil {
		return plan, refusal
	}
	for _, narrow := range narrowings {
		plan = narrow(pod, plan, world)
	}
	plan = plan.reducedTo(func(m Move) recommender.Size { return m.To })
	plan.Restarts = restartsAny(pod, plan)
	if plan.Empty() {
		return plan, nothingLeft(plan.LeftOut)
	}
	if refusal := qosChange(situation{pod: pod}, plan); refusal != nil {
		return plan, refusal
	}
	return plan, firstClosed(last, pod, plan, world)
}

// Fits repeats the shared gates for a plan that Admit let pass: since then, other plans of the same pass may have
// been promised quota, room or records.
func Fits(pod *corev1.Pod, plan Plan, world World) *Refusal {
	return firstClosed(shared, pod, plan, world)
}

// firstClosed returns the refusal of the first gate that refuses, or nil.
func firstClosed(gates []func(*corev1.Pod, Plan, World) *Refusal, pod *corev1.Pod, plan Plan, world World) *Refusal {
	for _, gate := range gates {
		if refusal := gate(pod, plan, world); refusal != nil {
			return refusal
		}
	}
	return nil
}

// paused respects a pause by any level of settings. Watches and reverts are not gated, so they go on.
func paused(_ *corev1.Pod, _ Plan, w World) *Refusal {
	if len(w.Rules.Paused) > 0 {
		return refuse(ReasonPaused, "paused by the %s settings; watches and reverts go on", strings.Join(w.Rules.Paused, " and "))
	}
	return nil
}

// mode refuses in the modes that do not change running pods.
func mode(_ *corev1.Pod, _ Plan, w World) *Refusal {
	switch w.Rules.Mode {
	case v1alpha1.UpdateOneShot, v1alpha1.UpdateCanary, v1alpha1.UpdateAuto:
		return nil
	}
	return refuse(ReasonMode, "mode %q leaves running pods as they are; OneShot, Canary and Auto resize them", w.Rules.Mode)
}

// workloadPaused respects a pause of one workload, by a person (annotation) or by the operator itself (status).
func workloadPaused(_ *corev1.Pod, _ Plan, w World) *Refusal {
	switch {
	case w.WorkloadAnnotations[v1alpha1.PausedAnnotation] == "true":
		return refuse(ReasonWorkloadPaused, "the workload has the annotation %s; kubectl attune resume takes it off", v1alpha1.PausedAnnotation)
	case w.Status.Paused != nil:
		return PausedItself(*w.Status.Paused)
	}
	return nil
}

// PausedItself is the refusal for a workload that the operator itself has paused, for instance after many reverts.
func PausedItself(p v1alpha1.PausedState) *Refusal {
	return refuse(ReasonWorkloadPaused, "paused since %s: %s", p.Since.UTC().Format(time.RFC3339), p.Reason)
}

// optedOut respects the annotation attune.io/skip on the workload, its pod template or the pod.
func optedOut(pod *corev1.Pod, _ Plan, w World) *Refusal {
	for _, a := range []struct {
		on     string
		values map[string]string
	}{{"workload", w.WorkloadAnnotations}, {"pod template", w.TemplateAnnotations}, {"pod", pod.Annotations}} {
		if a.values[v1alpha1.SkipAnnotation] == "true" {
			return refuse(ReasonSkipped, "the %s has the annotation %s", a.on, v1alpha1.SkipAnnotation)
		}
	}
	return nil
}

// tooLarge refuses where the operator's caches keep only a part of the pod or of its workload: nothing is begun on
// half of the facts. Answers to OOM kills need the containers alone (incomplete).
func tooLarge(pod *corev1.Pod, p Plan, w World) *Refusal {
	switch {
	case p.Urgent:
		return incomplete(pod, p, w)
	case workload.Large(w.WorkloadAnnotations):
		return refuse(ReasonTooLarge, "the workload %s", workload.WhatIsTooLarge)
	case workload.Large(pod.Annotations):
		return refuse(ReasonTooLarge, "the pod %s", workload.WhatIsTooLarge)
	}
	return nil
}

// incomplete refuses where the caches do not keep all containers of the pod or of its workload.
func incomplete(pod *corev1.Pod, _ Plan, w World) *Refusal {
	switch {
	case workload.Incomplete(w.WorkloadAnnotations):
		return refuse(ReasonTooLarge, "the workload %s", workload.WhatIsTooLarge)
	case workload.Incomplete(pod.Annotations):
		return refuse(ReasonTooLarge, "the pod %s", workload.WhatIsTooLarge)
	}
	return nil
}

func namespaceTerminating(pod *corev1.Pod, _ Plan, w World) *Refusal {
	if w.NamespaceTerminating {
		return refuse(ReasonNamespaceTerminating, "namespace %s is being deleted", pod.Namespace)
	}
	return nil
}

// verticalAutoscaler refuses where a VPA sizes the workload: the two would undo each other's changes.
func verticalAutoscaler(_ *corev1.Pod, _ Plan, w World) *Refusal {
	if w.VPA != "" {
		return refuse(ReasonVPA, "VerticalPodAutoscaler %s sizes the workload too; set its updateMode to Off or delete it", w.VPA)
	}
	return nil
}

// noRights waits where the API server refused the operator the right to resize pods. Answers to OOM kills ask
// again sooner, so they have a reason of their own.
func noRights(_ *corev1.Pod, p Plan, w World) *Refusal {
	why := w.NoRights
	if p.Urgent {
		why = w.NoRightsUrgent
	}
	if why != "" {
		return wait(ReasonNoRights, "the operator may not resize pods: %s", why)
	}
	return nil
}

// recordOpen waits for the pod's open record: a second resize would mix up what belongs to which.
func recordOpen(pod *corev1.Pod, _ Plan, w World) *Refusal {
	for _, r := range w.Status.Records {
		if r.PodUID == pod.UID {
			return wait(ReasonResizeUnderway, "the pod's last resize of %s is not finished", r.WrittenAt.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// outsideSchedule: what is new waits for the schedule. Growth after an OOM kill takes harm back, as reverts do.
func outsideSchedule(_ *corev1.Pod, p Plan, w World) *Refusal {
	if p.Urgent || Open(w.Rules.Schedule, w.Now) {
		return nil
	}
	next := NextOpen(w.Rules.Schedule, w.Now)
	if next.IsZero() {
		return wait(ReasonOutsideSchedule, "the schedule has no window in the coming week")
	}
	return waitUntil(next, ReasonOutsideSchedule, "the schedule next opens at %s", next.UTC().Format(time.RFC3339))
}

// staleData waits for new usage where the history behind the target is too old. Either value being zero switches
// the gate off.
func staleData(_ *corev1.Pod, p Plan, w World) *Refusal {
	if p.Urgent || w.DataUntil.IsZero() || w.StaleAfter == 0 {
		return nil
	}
	if w.Now.Sub(w.DataUntil) > w.StaleAfter {
		return wait(ReasonStaleData, "the newest usage data is of %s, which is more than %s ago", w.DataUntil.UTC().Format(time.RFC3339), w.StaleAfter)
	}
	return nil
}

// memorySoon waits for a measurement before a memory limit is lowered. Without it: limit lowered below what the
// container holds -> the kubelet refuses it, and a container that crashes meanwhile starts with the lower limit.
func memorySoon(_ *corev1.Pod, p Plan, w World) *Refusal {
	if !w.MemorySoon || !p.LowersMemoryLimit() {
		return nil
	}
	return waitUntil(w.Now.Add(memoryKnownIn), ReasonMemoryUnknown, "what its containers hold is being measured; memory limits are not lowered before")
}

// memoryKnownIn is after what time memory that is being measured is looked at again.
const memoryKnownIn = 15 * time.Second

// rollout waits for the end of the workload's rollout: its pods come and go, and their usage says little. Growth
// after an OOM kill does not wait.
func rollout(_ *corev1.Pod, p Plan, w World) *Refusal {
	if w.Rollout != "" && !p.Urgent {
		return wait(ReasonRolloutInProgress, "the workload is rolling out: %s", w.Rollout)
	}
	return nil
}

// cooldown waits for the end of the workload's cooldown (CooldownLeft). Answers to OOM kills do not wait.
func cooldown(_ *corev1.Pod, p Plan, w World) *Refusal {
	left := CooldownLeft(w.Status.CooldownFrom, w.Status.Backoff, w.Rules, w.Now)
	if p.Urgent || left == 0 {
		return nil
	}
	until := w.Now.Add(left)
	return waitUntil(until, ReasonCooldown, "the workload cools down until %s", until.UTC().Format(time.RFC3339))
}

// reverting refuses anything new on a workload while one of its pods is being put back after harm. A pod on a node
// that is not ready does not count, since it cannot be put back until the node returns.
func reverting(_ *corev1.Pod, p Plan, w World) *Refusal {
	for _, r := range w.Status.Records {
		if r.Phase == v1alpha1.RecordReverting && !p.Urgent && !Unreachable(r, w.Unreachable) {
			return wait(ReasonReverting, "pod %s is being put back after: %s", r.PodName, r.Reason)
		}
	}
	return nil
}

// restartsLastReplica treats a restart by a resize as a disruption that no controller compensates. It refuses it
// for the only replica, unless the policy allows pods to be recreated, and for every pod while one replica is not
// ready.
func restartsLastReplica(_ *corev1.Pod, p Plan, w World) *Refusal {
	switch {
	case !p.Restarts || p.Urgent:
		return nil
	case w.Replicas <= 1 && w.Rules.Method != v1alpha1.ResizeInPlaceOrRecreate:
		return refuse(ReasonSingleReplica, "its resizePolicy restarts a container of the only replica; resizeMethod InPlaceOrRecreate allows that")
	case w.ReadyReplicas < w.Replicas:
		return wait(ReasonReplicasNotReady, "its resizePolicy restarts a container, and %d of %d replicas are ready", w.ReadyReplicas, w.Replicas)
	}
	return nil
}
