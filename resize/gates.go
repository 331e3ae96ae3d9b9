package resize

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

// gate refuses a plan, or returns nil. narrowing moves changes that are blocked now from a plan to LeftOut.
type (
	gate      = func(*corev1.Pod, Plan, GateInput) *Refusal
	narrowing = func(*corev1.Pod, Plan, GateInput) Plan
	reasons   = []string
)

// row is a gate or a narrowing, the kinds of resizes to which it applies, and its reasons.
type row[F any] struct {
	check   F
	kinds   kinds
	reasons reasons
}

// gates apply in order; the first one that refuses gives the reason. Gates for users' own settings come first: users
// look for that reason, and these gates are the cheapest.
var gates = []row[gate]{
	{paused, steps | answers | reboosts | spikes | stopping, reasons{ReasonPaused}},
	{mode, steps | answers | reboosts | spikes | stopping, reasons{ReasonMode}},
	{workloadPaused, steps | answers | reboosts | spikes | stopping, reasons{ReasonWorkloadPaused}},
	{optedOut, all&^restores | stopping, reasons{ReasonSkipped}},
	{tooLarge, steps, reasons{ReasonTooLarge}},
	{incomplete, all &^ steps, reasons{ReasonTooLarge}},
	{namespaceTerminating, all, reasons{ReasonNamespaceTerminating}},
	{verticalAutoscaler, all&^restores | stopping, reasons{ReasonVPA}},
	{noRights, all, reasons{ReasonNoRights}},
	{recordOpen, all, reasons{ReasonResizeUnderway}},
	{RecordsFull, all&^standing | begins, reasons{ReasonRecordsFull}},
	{boostsFull, boosts | reboosts, reasons{ReasonRecordsFull}},
	{reverting, steps | boosts | reboosts | spikes, reasons{ReasonReverting}},
	{outsideSchedule, steps, reasons{ReasonOutsideSchedule}},
	{staleData, steps, reasons{ReasonStaleData}},
	{rollout, steps, reasons{ReasonRolloutInProgress}},
	{cooldown, steps, reasons{ReasonCooldown}},
	{backedOff, boosts, reasons{ReasonCooldown}},
	{nodePressure, steps | boosts | reboosts | spikes, reasons{ReasonNodePressure}},
	{nodeBlocked, steps | reboosts, reasons{ReasonNodeBlocked}},
	{neighboursWait, steps, reasons{ReasonNodeBlocked}},
}

// narrowings run in order, after all gates. They remove a container's resource from a plan, or bring it within a range.
var narrowings = []row[narrowing]{
	{withoutExcluded, all &^ (restores | boosts), reasons{ReasonExcluded}},
	{withoutUncontrolled, steps | answers | reboosts, reasons{ReasonNotControlled}},
	{withinCooldown, steps, reasons{ReasonCooldown}},
	{withoutHeld, steps | answers | reboosts, reasons{ReasonHPA}},
	{withoutFailedLimits, steps | answers | undos | spikes, reasons{ReasonMemoryInUse}},
	{withoutChildKills, steps, reasons{ReasonChildKilled}},
	{withoutConsolidation, steps, reasons{ReasonNewPodsNotSized}},
	{withinLimitRanges, all, reasons{ReasonLimitRange}},
	{stayBurstable, steps | answers, reasons{ReasonQOSClass}},
	{withoutScaledRaises, all &^ (boosts | spikes), reasons{ReasonHPASync}},
	{withinKept, steps | answers | reboosts, reasons{ReasonHPA}},
}

// lastGates check the narrowed plan.
var lastGates = []row[gate]{
	{targetSoon, steps | reboosts, reasons{ReasonHPA}},
	{memorySoon, steps | answers | undos | spikes, reasons{ReasonMemoryUnknown}},
	{restartsLastReplica, steps | undos | boosts | spikes, reasons{ReasonSingleReplica, ReasonReplicasNotReady}},
	{disruptionBudgets, steps | undos | boosts | spikes, reasons{ReasonDisruptionBudget}},
	{limitRange, all | reverts, reasons{ReasonLimitRange, ReasonQOSClass}},
	{unspecified, boosts | spikes, reasons{ReasonQuota}},
	{quota, all&^(boosts|spikes) | reverts | begins, reasons{ReasonQuota}},
	{nodeRoom, steps | answers | reboosts | begins, reasons{ReasonNoRoom}},
	{triedLately, all, reasons{ReasonRefused, ReasonInfeasible, ReasonNodeBlocked, ReasonTooManyOOMs, ReasonPodLimitBehind, ReasonNotRunning}},
}

// Admit checks a plan against all gates and narrowings of its kind. The returned plan may be narrower than the
// argument; LeftOut has the removed changes and the reasons. Without a refusal the plan may begin, subject to Fits.
//
// The order matters. Gates run before narrowings, so that a paused workload reports the pause and not an excluded
// container. The QoS check runs after the narrowings, since removing one resource can change the class that the full
// plan kept.
func Admit(pod *corev1.Pod, plan Plan, in GateInput) (Plan, *Refusal) {
	if plan.Urgent {
		plan = plan.AsUrgent()
	}
	kind := kindOf(plan)
	if refusal := firstClosed(gates, kind, pod, plan, in); refusal != nil {
		return plan, refusal
	}
	for _, narrowing := range narrowings {
		if narrowing.kinds&kind != 0 {
			plan = narrowing.check(pod, plan, in)
		}
	}
	plan = plan.reducedTo(func(m Move) recommender.Size { return m.To })
	plan.Restarts, plan.Due = RestartsAny(pod, plan), in.Due.raisesAny(plan)
	if plan.Empty() {
		return plan, nothingLeft(plan.LeftOut)
	}
	if refusal := qosChange(situation{pod: pod}, plan); refusal != nil {
		return plan, refusal
	}
	return plan, firstClosed(lastGates, kind, pod, plan, in)
}

// Fits repeats for a plan that Admit allowed the gates that depend on other plans: since then, other plans of the same
// reconcile may have reserved quota, room or records.
func Fits(pod *corev1.Pod, plan Plan, in GateInput) *Refusal {
	return cmp.Or(firstClosed(gates, begins, pod, plan, in), firstClosed(lastGates, begins, pod, plan, in))
}

// firstClosed returns the refusal of the first gate of a kind that refuses, or nil.
func firstClosed(gates []row[gate], kind kinds, pod *corev1.Pod, plan Plan, in GateInput) *Refusal {
	for _, gate := range gates {
		if gate.kinds&kind != 0 {
			if refusal := gate.check(pod, plan, in); refusal != nil {
				return refusal
			}
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
	return mode == v1alpha1.UpdateOneShot || mode == v1alpha1.UpdateCanary || mode == v1alpha1.UpdateAuto
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

// tooLarge refuses if attune's caches keep only a part of the pod or of its workload: resize steps need the complete
// object. All other resizes need only the containers (incomplete).
func tooLarge(pod *corev1.Pod, _ Plan, in GateInput) *Refusal {
	return refuseLarge(workload.Large, pod, in)
}

// refuseLarge refuses if the workload or the pod is too large.
func refuseLarge(is func(annotations map[string]string) bool, pod *corev1.Pod, in GateInput) *Refusal {
	switch {
	case is(in.Workload.Annotations):
		return Refuse(ReasonTooLarge, "the workload %s", workload.WhatIsTooLarge)
	case is(pod.Annotations):
		return Refuse(ReasonTooLarge, "the pod %s", workload.WhatIsTooLarge)
	}
	return nil
}

// incomplete refuses if the caches do not keep all containers of the pod or of its workload.
func incomplete(pod *corev1.Pod, _ Plan, in GateInput) *Refusal {
	return refuseLarge(workload.Incomplete, pod, in)
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
		return Refuse(ReasonVPA, "VerticalPodAutoscaler %s sizes the workload too. Set its updateMode to Off and remove its startupBoost, or delete it", in.Workload.VPA)
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
			return RefuseForNow(ReasonResizeUnderway, "the pod's last resize of %s is not complete yet. The next one follows after its observation", r.WrittenAt.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// outsideSchedule refuses new resizes outside the schedule. Growth after an OOM kill ends a regression, as reverts do.
func outsideSchedule(_ *corev1.Pod, _ Plan, in GateInput) *Refusal {
	if Open(in.Rules.Schedule, in.Now) {
		return nil
	}
	next := NextOpen(in.Rules.Schedule, in.Now)
	if next.IsZero() {
		return RefuseForNow(ReasonOutsideSchedule, "the schedule has no window in the next 7 days. Change updateStrategy.schedule")
	}
	return waitUntil(next, ReasonOutsideSchedule, "the schedule next opens at %s. %s", next.UTC().Format(time.RFC3339), doNotWait)
}

// doNotWait ends the messages of waits for a time.
const doNotWait = "Reverts do not wait for it, nor do memory raises before or after an OOM kill"

// staleData refuses if the usage history behind the target is too old. If either value is zero, the gate is off.
func staleData(_ *corev1.Pod, _ Plan, in GateInput) *Refusal {
	if in.Workload.DataUntil.IsZero() || in.Workload.StaleAfter == 0 {
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
// after an OOM kill does not wait, nor does a pod of the newest template if the rollout makes no progress.
func rollout(_ *corev1.Pod, _ Plan, in GateInput) *Refusal {
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

// reverting refuses every new resize of a workload while one of its pods is being restored after a regression. A pod on
// a node that is not ready does not count, since it cannot be restored until the node returns.
func reverting(_ *corev1.Pod, _ Plan, in GateInput) *Refusal {
	for _, r := range in.Status.Records {
		if r.Phase == v1alpha1.RecordReverting && !Unreachable(r, in.Unreachable) {
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
	case !p.Restarts:
		return nil
	case in.Workload.Replicas <= 1 && in.Rules.Method != v1alpha1.ResizeInPlaceOrRecreate:
		return Refuse(ReasonSingleReplica, "the resize would restart a container of the only replica (resizePolicy). Set resizeMethod: InPlaceOrRecreate to allow that")
	case in.Workload.ReadyReplicas < in.Workload.Replicas:
		return RefuseForNow(ReasonReplicasNotReady, "the resize would restart a container (resizePolicy), but only %d of %d replicas are ready", in.Workload.ReadyReplicas, in.Workload.Replicas)
	}
	return nil
}
