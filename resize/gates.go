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

// gates are looked at in order; the first one that is closed gives the reason. Cheap ones that people
// set themselves come first, since theirs is the reason they look for.
var gates = slices.Concat(setGates, []gate{RecordsFull}, paceGates)

// standingGates are those that look at a pod whatever its change is and whoever else waits.
var standingGates = slices.Concat(setGates, paceGates)

var (
	setGates  = []gate{paused, mode, workloadPaused, optedOut, tooLarge, namespaceTerminating, verticalAutoscaler, noRights, recordOpen}
	paceGates = []gate{reverting, outsideSchedule, staleData, rollout, cooldown, nodePressure, nodeBlocked, neighboursWait}
)

// narrowings leave a container's resource out of a plan, or bring it within what is allowed.
var narrowings = []func(*corev1.Pod, Plan, World) Plan{
	withoutExcluded, withoutHeld, withoutFailedLimits, withinLimitRanges,
}

// lastGates look at what is left of the plan.
var lastGates = []func(*corev1.Pod, Plan, World) *Refusal{
	memorySoon, restartsLastReplica, disruptionBudgets, limitRange, quota, nodeRoom, triedLately,
}

// shared are the gates whose answer depends on what other plans take: of the object, of quotas, of the node.
var shared = []func(*corev1.Pod, Plan, World) *Refusal{RecordsFull, quota, nodeRoom}

// Admit passes a plan through the gates. The plan that comes back may be narrower than the one that
// went in; what was left out is in its LeftOut.
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

// Fits asks once more for what plans share, of a plan that passed the gates: since then, other plans of the same
// pass may have been promised room and quota.
func Fits(pod *corev1.Pod, plan Plan, world World) *Refusal {
	return firstClosed(shared, pod, plan, world)
}

func firstClosed(gates []func(*corev1.Pod, Plan, World) *Refusal, pod *corev1.Pod, plan Plan, world World) *Refusal {
	for _, gate := range gates {
		if refusal := gate(pod, plan, world); refusal != nil {
			return refusal
		}
	}
	return nil
}

func paused(_ *corev1.Pod, _ Plan, w World) *Refusal {
	if len(w.Rules.Paused) > 0 {
		return refuse(ReasonPaused, "paused by the %s settings; watches and reverts go on", strings.Join(w.Rules.Paused, " and "))
	}
	return nil
}

func mode(_ *corev1.Pod, _ Plan, w World) *Refusal {
	switch w.Rules.Mode {
	case v1alpha1.UpdateOneShot, v1alpha1.UpdateCanary, v1alpha1.UpdateAuto:
		return nil
	}
	return refuse(ReasonMode, "mode %q leaves running pods as they are; OneShot, Canary and Auto resize them", w.Rules.Mode)
}

func workloadPaused(_ *corev1.Pod, _ Plan, w World) *Refusal {
	switch {
	case w.WorkloadAnnotations[v1alpha1.PausedAnnotation] == "true":
		return refuse(ReasonWorkloadPaused, "the workload has the annotation %s; kubectl attune resume takes it off", v1alpha1.PausedAnnotation)
	case w.Status.Paused != nil:
		return PausedItself(*w.Status.Paused)
	}
	return nil
}

// PausedItself is the refusal of a workload that the operator has paused.
func PausedItself(p v1alpha1.PausedState) *Refusal {
	return refuse(ReasonWorkloadPaused, "paused since %s: %s", p.Since.UTC().Format(time.RFC3339), p.Reason)
}

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

// tooLarge: what a pod or its workload says is not all known, and nothing is begun by half of it. Answers to OOM kills need
// the containers alone.
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

// incomplete: the containers of a pod or of its workload are not all known.
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

func verticalAutoscaler(_ *corev1.Pod, _ Plan, w World) *Refusal {
	if w.VPA != "" {
		return refuse(ReasonVPA, "VerticalPodAutoscaler %s sizes the workload too; set its updateMode to Off or delete it", w.VPA)
	}
	return nil
}

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

func staleData(_ *corev1.Pod, p Plan, w World) *Refusal {
	if p.Urgent || w.DataUntil.IsZero() || w.StaleAfter == 0 {
		return nil
	}
	if w.Now.Sub(w.DataUntil) > w.StaleAfter {
		return wait(ReasonStaleData, "the newest usage data is of %s, which is more than %s ago", w.DataUntil.UTC().Format(time.RFC3339), w.StaleAfter)
	}
	return nil
}

// memorySoon: a limit that is lowered below what a container holds is refused by its kubelet, and what crashes meanwhile
// starts with it.
func memorySoon(_ *corev1.Pod, p Plan, w World) *Refusal {
	if !w.MemorySoon || !p.LowersMemoryLimit() {
		return nil
	}
	return waitUntil(w.Now.Add(memoryKnownIn), ReasonMemoryUnknown, "what its containers hold is being measured; memory limits are not lowered before")
}

// memoryKnownIn is when to look again at memory that is being measured.
const memoryKnownIn = 15 * time.Second

// rollout: pods come and go, and their usage says little. Growth after an OOM kill cannot wait for it.
func rollout(_ *corev1.Pod, p Plan, w World) *Refusal {
	if w.Rollout != "" && !p.Urgent {
		return wait(ReasonRolloutInProgress, "the workload is rolling out: %s", w.Rollout)
	}
	return nil
}

func cooldown(_ *corev1.Pod, p Plan, w World) *Refusal {
	left := CooldownLeft(w.Status.CooldownFrom, w.Status.Backoff, w.Rules, w.Now)
	if p.Urgent || left == 0 {
		return nil
	}
	until := w.Now.Add(left)
	return waitUntil(until, ReasonCooldown, "the workload cools down until %s", until.UTC().Format(time.RFC3339))
}

// reverting: after a harm nothing new is tried on a workload before its pods are put back, as far as they can be reached.
func reverting(_ *corev1.Pod, p Plan, w World) *Refusal {
	for _, r := range w.Status.Records {
		if r.Phase == v1alpha1.RecordReverting && !p.Urgent && !Unreachable(r, w.Unreachable) {
			return wait(ReasonReverting, "pod %s is being put back after: %s", r.PodName, r.Reason)
		}
	}
	return nil
}

// restartsLastReplica: a restart by resize is a disruption that no controller makes up for, so it is kept from the
// only replica unless the policy allows pods to be recreated, and from all while one is not ready.
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
