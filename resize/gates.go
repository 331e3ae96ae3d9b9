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

// gates apply in order to a resize step towards a target; the first one that refuses gives the reason. Gates for users'
// own settings come first: users look for that reason, and these gates are the cheapest.
var gates = slices.Concat(setGates, []gate{RecordsFull}, paceGates)

// standingGates are the gates that depend neither on the change nor on the queue for records.
var standingGates = slices.Concat(setGates, paceGates)

var (
	// setGates check settings, annotations, permissions and the pod's own open record; paceGates check the time, the
	// workload's progress and the node.
	setGates  = []gate{paused, mode, workloadPaused, optedOut, tooLarge, namespaceTerminating, verticalAutoscaler, noRights, recordOpen}
	paceGates = []gate{reverting, outsideSchedule, staleData, rollout, cooldown, nodePressure, nodeBlocked, neighboursWait}
)

// narrowings remove a resource of a container from a plan, or bring it within the allowed range. They run in order,
// after all gates.
var narrowings = []func(*corev1.Pod, Plan, GateInput) Plan{
	withoutExcluded, withoutHeld, withoutFailedLimits, withinLimitRanges,
}

// lastGates check the narrowed plan.
var lastGates = []func(*corev1.Pod, Plan, GateInput) *Refusal{
	memorySoon, restartsLastReplica, disruptionBudgets, limitRange, quota, nodeRoom, triedLately,
}

// shared are the gates whose answer depends on other plans: space in the object, quota, room on the node. Fits repeats
// them just before a plan begins.
var shared = []func(*corev1.Pod, Plan, GateInput) *Refusal{RecordsFull, quota, nodeRoom}

// Admit checks a plan against all gates and narrowings of its wave. The returned plan may be narrower than the
// argument; LeftOut has the removed changes and the reasons. Without a refusal the plan may begin, subject to Fits.
//
// The order matters. Gates run before narrowings, so that a paused workload reports the pause and not an excluded
// container. The QoS check runs after the narrowings, since removing one resource can change the class that the full
// plan kept.
func Admit(pod *corev1.Pod, plan Plan, in GateInput) (Plan, *Refusal) {
	if plan.Urgent {
		plan = plan.AsUrgent()
	}
	rules, errand := errands[plan.Wave]
	if !errand {
		rules.first, rules.narrow, rules.last = gates, narrowings, lastGates
	}
	if refusal := firstClosed(rules.first, pod, plan, in); refusal != nil {
		return plan, refusal
	}
	for _, narrow := range rules.narrow {
		plan = narrow(pod, plan, in)
	}
	plan = plan.reducedTo(func(m Move) recommender.Size { return m.To })
	plan.Restarts = RestartsAny(pod, plan)
	if plan.Empty() {
		return plan, nothingLeft(plan.LeftOut)
	}
	if refusal := qosChange(situation{pod: pod}, plan); refusal != nil {
		return plan, refusal
	}
	return plan, firstClosed(rules.last, pod, plan, in)
}

// Fits repeats the shared gates for a plan that Admit allowed: since then, other plans of the same reconcile may have
// reserved quota, room or records.
func Fits(pod *corev1.Pod, plan Plan, in GateInput) *Refusal {
	return firstClosed(shared, pod, plan, in)
}

// firstClosed returns the refusal of the first gate that refuses, or nil.
func firstClosed(gates []gate, pod *corev1.Pod, plan Plan, in GateInput) *Refusal {
	for _, gate := range gates {
		if refusal := gate(pod, plan, in); refusal != nil {
			return refusal
		}
	}
	return nil
}

// paused refuses while any level of settings is paused. Observation and reverts have no such gate, so they go on.
func paused(_ *corev1.Pod, _ Plan, in GateInput) *Refusal {
	if len(in.Rules.Paused) > 0 {
		return Refuse(ReasonPaused, "paused by the %s settings; observation and reverts continue", strings.Join(in.Rules.Paused, " and "))
	}
	return nil
}

// mode refuses in the modes that do not change running pods.
func mode(_ *corev1.Pod, _ Plan, in GateInput) *Refusal {
	if ChangesPods(in.Rules.Mode) {
		return nil
	}
	return Refuse(ReasonMode, "mode %q does not resize running pods. Use OneShot, Canary or Auto", in.Rules.Mode)
}

// ChangesPods reports whether a mode resizes running pods.
func ChangesPods(mode v1alpha1.UpdateType) bool {
	switch mode {
	case v1alpha1.UpdateOneShot, v1alpha1.UpdateCanary, v1alpha1.UpdateAuto:
		return true
	}
	return false
}

// workloadPaused refuses while a user (annotation) or attune itself (status) has paused the workload.
func workloadPaused(_ *corev1.Pod, _ Plan, in GateInput) *Refusal {
	switch {
	case in.Workload.Annotations[v1alpha1.PausedAnnotation] == "true":
		return Refuse(ReasonWorkloadPaused, "the workload has the annotation %s. Run kubectl attune resume to remove it", v1alpha1.PausedAnnotation)
	case in.Status.Paused != nil:
		return PausedItself(*in.Status.Paused)
	}
	return nil
}

// PausedItself is the refusal for a workload that attune itself has paused, for instance after many reverts.
func PausedItself(p v1alpha1.PausedState) *Refusal {
	return Refuse(ReasonWorkloadPaused, "paused since %s: %s", p.Since.UTC().Format(time.RFC3339), p.Reason)
}

// optedOut refuses if the workload, its pod template or the pod has the annotation attune.io/skip.
func optedOut(pod *corev1.Pod, _ Plan, in GateInput) *Refusal {
	for _, a := range []struct {
		on     string
		values map[string]string
	}{{"workload", in.Workload.Annotations}, {"pod template", in.Workload.TemplateAnnotations}, {"pod", pod.Annotations}} {
		if a.values[v1alpha1.SkipAnnotation] == "true" {
			return Refuse(ReasonSkipped, "the %s has the annotation %s", a.on, v1alpha1.SkipAnnotation)
		}
	}
	return nil
}

// tooLarge refuses if attune's caches keep only a part of the pod or of its workload: decisions need the complete
// object. Answers to OOM kills need only the containers (incomplete).
func tooLarge(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	switch {
	case p.Urgent:
		return incomplete(pod, p, in)
	case workload.Large(in.Workload.Annotations):
		return Refuse(ReasonTooLarge, "the workload %s", workload.WhatIsTooLarge)
	case workload.Large(pod.Annotations):
		return Refuse(ReasonTooLarge, "the pod %s", workload.WhatIsTooLarge)
	}
	return nil
}

// incomplete refuses if the caches do not keep all containers of the pod or of its workload.
func incomplete(pod *corev1.Pod, _ Plan, in GateInput) *Refusal {
	switch {
	case workload.Incomplete(in.Workload.Annotations):
		return Refuse(ReasonTooLarge, "the workload %s", workload.WhatIsTooLarge)
	case workload.Incomplete(pod.Annotations):
		return Refuse(ReasonTooLarge, "the pod %s", workload.WhatIsTooLarge)
	}
	return nil
}

func namespaceTerminating(pod *corev1.Pod, _ Plan, in GateInput) *Refusal {
	return NamespaceGoing(pod, in.Namespace.Terminating)
}

// NamespaceGoing is the refusal for pods of a namespace that is being deleted, or nil.
func NamespaceGoing(pod *corev1.Pod, terminating bool) *Refusal {
	if !terminating {
		return nil
	}
	return Refuse(ReasonNamespaceTerminating, "namespace %s is being deleted", pod.Namespace)
}

// verticalAutoscaler refuses if a VPA sizes the workload: the two would revert each other's changes.
func verticalAutoscaler(_ *corev1.Pod, _ Plan, in GateInput) *Refusal {
	if in.Workload.VPA != "" {
		return Refuse(ReasonVPA, "VerticalPodAutoscaler %s sizes the workload too. Set its updateMode to Off, or delete it", in.Workload.VPA)
	}
	return nil
}

// noRights refuses while attune lacks the permission to resize pods. Answers to OOM kills retry sooner, so they have
// their own reason.
func noRights(_ *corev1.Pod, p Plan, in GateInput) *Refusal {
	why := in.NoRights
	if p.Urgent {
		why = in.NoRightsUrgent
	}
	if why != "" {
		return RefuseForNow(ReasonNoRights, "the operator may not resize pods: %s", why)
	}
	return nil
}

// recordOpen refuses while the pod has an open record: attune could not tell which of two resizes caused an effect.
func recordOpen(pod *corev1.Pod, _ Plan, in GateInput) *Refusal {
	for _, r := range in.Status.Records {
		if r.PodUID == pod.UID {
			return RefuseForNow(ReasonResizeUnderway, "the pod's last resize of %s is not complete yet", r.WrittenAt.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// outsideSchedule refuses new resizes outside the schedule. Growth after an OOM kill ends a regression, as reverts do.
func outsideSchedule(_ *corev1.Pod, p Plan, in GateInput) *Refusal {
	if p.Urgent || Open(in.Rules.Schedule, in.Now) {
		return nil
	}
	next := NextOpen(in.Rules.Schedule, in.Now)
	if next.IsZero() {
		return RefuseForNow(ReasonOutsideSchedule, "the schedule has no window in the next 7 days")
	}
	return waitUntil(next, ReasonOutsideSchedule, "the schedule next opens at %s", next.UTC().Format(time.RFC3339))
}

// staleData refuses if the usage history behind the target is too old. If either value is zero, the gate is off.
func staleData(_ *corev1.Pod, p Plan, in GateInput) *Refusal {
	if p.Urgent || in.Workload.DataUntil.IsZero() || in.Workload.StaleAfter == 0 {
		return nil
	}
	if in.Now.Sub(in.Workload.DataUntil) > in.Workload.StaleAfter {
		return RefuseForNow(ReasonStaleData, "the newest usage data is from %s, which is more than %s ago", in.Workload.DataUntil.UTC().Format(time.RFC3339), in.Workload.StaleAfter)
	}
	return nil
}

// memorySoon delays a lower memory limit until the usage is measured. Without it, a limit may fall below the usage. The
// kubelet refuses such a limit, and a container that crashes meanwhile starts with it.
func memorySoon(_ *corev1.Pod, p Plan, in GateInput) *Refusal {
	if !in.MemorySoon || !p.LowersMemoryLimit() {
		return nil
	}
	return waitUntil(in.Now.Add(memoryKnownIn), ReasonMemoryUnknown, "the memory usage of its containers is being measured; memory limits are lowered only after that")
}

// memoryKnownIn is the delay before a plan is checked again while memory usage is being measured.
const memoryKnownIn = 15 * time.Second

// rollout refuses while the workload rolls out: its pods are replaced, and their usage is not representative. Growth
// after an OOM kill does not wait.
func rollout(_ *corev1.Pod, p Plan, in GateInput) *Refusal {
	if p.Urgent {
		return nil
	}
	return RollingOut(in.Workload.Rollout)
}

// RollingOut returns the refusal while a rollout is in progress, or nil. what is its progress (WorkloadInput.Rollout);
// empty: no rollout.
func RollingOut(what string) *Refusal {
	if what == "" {
		return nil
	}
	return RefuseForNow(ReasonRolloutInProgress, "the workload is rolling out: %s", what)
}

// cooldown waits for the end of the workload's cooldown (CooldownLeft). Answers to OOM kills do not wait.
func cooldown(_ *corev1.Pod, p Plan, in GateInput) *Refusal {
	left := CooldownLeft(in.Status.CooldownFrom, in.Status.Backoff, in.Rules, in.Now)
	if p.Urgent || left == 0 {
		return nil
	}
	until := in.Now.Add(left)
	return waitUntil(until, ReasonCooldown, "cooldown until %s", until.UTC().Format(time.RFC3339))
}

// reverting refuses every new resize of a workload while one of its pods is being restored after a regression. A pod on
// a node that is not ready does not count, since it cannot be restored until the node returns.
func reverting(_ *corev1.Pod, p Plan, in GateInput) *Refusal {
	for _, r := range in.Status.Records {
		if r.Phase == v1alpha1.RecordReverting && !p.Urgent && !Unreachable(r, in.Unreachable) {
			return RefuseForNow(ReasonReverting, "pod %s is being reverted: %s", r.PodName, r.Reason)
		}
	}
	return nil
}

// restartsLastReplica treats a restart by a resize as a disruption that no controller compensates. It refuses the
// restart of the only replica, unless the policy allows pods to be recreated, and of every pod while a replica is not
// ready.
func restartsLastReplica(_ *corev1.Pod, p Plan, in GateInput) *Refusal {
	switch {
	case !p.Restarts || p.Urgent:
		return nil
	case in.Workload.Replicas <= 1 && in.Rules.Method != v1alpha1.ResizeInPlaceOrRecreate:
		return Refuse(ReasonSingleReplica, "the resize would restart a container of the only replica (resizePolicy). Set resizeMethod: InPlaceOrRecreate to allow that")
	case in.Workload.ReadyReplicas < in.Workload.Replicas:
		return RefuseForNow(ReasonReplicasNotReady, "the resize would restart a container (resizePolicy), but only %d of %d replicas are ready", in.Workload.ReadyReplicas, in.Workload.Replicas)
	}
	return nil
}
