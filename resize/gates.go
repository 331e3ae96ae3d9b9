package resize

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// World is what the gates look at beside the pod: plain values that the caller fills. A zero value is
// "not known"; each field says what then happens.
type World struct {
	Now   time.Time
	Rules Rules

	// WorkloadAnnotations and TemplateAnnotations of the workload. Unknown ones opt nothing out.
	WorkloadAnnotations, TemplateAnnotations map[string]string
	// Status of the workload's AttuneRecommendation: open records, back-off, cooldown, loop's own pause.
	Status v1alpha1.AttuneRecommendationStatus
	// Replicas that the workload wants and that are ready; they matter to changes that restart containers.
	// Unknown ones (0) count as one replica, and as none that is ready.
	Replicas, ReadyReplicas int

	// Rollout is what the workload's rollout waits for, such as "2 of 5 replicas are updated"; empty: none
	// is in progress. An unavailable replica alone is none.
	Rollout string
	// DataUntil is the newest usage sample behind the wish, StaleAfter how old it may be. Either zero:
	// not checked here; the recommender holds stale targets too.
	DataUntil  time.Time
	StaleAfter time.Duration
	// DataPoints out of MinimumDataPoints. A zero minimum is not checked here.
	DataPoints, MinimumDataPoints int

	// HPA holds the resources that a HorizontalPodAutoscaler scales on by utilization, by container; the
	// name "" stands for every container. Missing ones are free.
	HPA map[string]Held
	// VPA names a VerticalPodAutoscaler of the workload in a mode other than Off; empty: none.
	VPA string

	// LimitRanges and Quotas of the pod's namespace. Without them only the API server checks.
	LimitRanges []corev1.LimitRange
	Quotas      []corev1.ResourceQuota
	// Promised is growth of other pods of the namespace, PromisedOnNode of other pods of the node, that was
	// decided in this pass and that no status shows yet (GrowthOf).
	Promised, PromisedOnNode recommender.Size

	// Neighbours are the other pods of the pod's node. Room is checked only where RoomKnown is set, as an
	// empty node and an unread one look alike.
	Neighbours []*corev1.Pod
	RoomKnown  bool
	// NodeBlock: the node put off or refused resizes lately (BlockOf). Zero: it did not.
	NodeBlock NodeBlock
	// Capabilities of the pod's node. Unknown allocatable amounts are not checked.
	Capabilities Capabilities
	// NamespaceTerminating: the pod's namespace is being deleted.
	NamespaceTerminating bool
}

// NodeBlock is how long growth on a node, or every resize, is not tried.
type NodeBlock struct{ Growth, All time.Time }

// Held says which resources are held, indexed by Resource, and by what.
type Held struct {
	Of [2]bool
	By string
}

// gates are looked at in order; the first one that is closed gives the reason. Cheap ones that people
// set themselves come first, since theirs is the reason they look for.
var gates = []func(*corev1.Pod, Plan, World) *Refusal{
	paused, mode, workloadPaused, optedOut, namespaceTerminating, verticalAutoscaler,
	recordOpen, recordsFull, reverting, outsideSchedule, staleData, tooLittleData, rollout, cooldown,
	tooManyOOMs, nodePressure, nodeBlocked, neighboursWait, restartsLastReplica,
}

// narrowings leave a container's resource out of a plan, or bring it within what is allowed.
var narrowings = []func(*corev1.Pod, Plan, World) Plan{
	withoutExcluded, withoutHeld, withoutFailedLimits, withinLimitRanges,
}

// roomGates look at what is left of the plan.
var roomGates = []func(*corev1.Pod, Plan, World) *Refusal{
	limitRange, quota, nodeRoom,
}

// Admit passes a plan through the gates. The plan that comes back may be narrower than the one that
// went in; what was left out is in its LeftOut.
func Admit(pod *corev1.Pod, plan Plan, world World) (Plan, *Refusal) {
	if plan.Urgent {
		plan = plan.AsUrgent()
	}
	if refusal := firstClosed(gates, pod, plan, world); refusal != nil {
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
	return plan, firstClosed(roomGates, pod, plan, world)
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
		return refuse(ReasonWorkloadPaused, "paused since %s: %s", w.Status.Paused.Since.UTC().Format(time.RFC3339), w.Status.Paused.Reason)
	}
	return nil
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

func recordOpen(pod *corev1.Pod, _ Plan, w World) *Refusal {
	for _, r := range w.Status.Records {
		if r.PodUID == pod.UID {
			return wait(ReasonResizeUnderway, "the pod's last resize of %s is not finished", r.WrittenAt.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

func recordsFull(_ *corev1.Pod, _ Plan, w World) *Refusal {
	if len(w.Status.Records) >= v1alpha1.MaxRecords {
		return wait(ReasonRecordsFull, "%d pods of the workload are being resized or watched, which is the most there can be", v1alpha1.MaxRecords)
	}
	return nil
}

func outsideSchedule(_ *corev1.Pod, _ Plan, w World) *Refusal {
	if Open(w.Rules.Schedule, w.Now) {
		return nil
	}
	next := NextOpen(w.Rules.Schedule, w.Now)
	if next.IsZero() {
		return wait(ReasonOutsideSchedule, "the schedule has no window in the coming week")
	}
	return wait(ReasonOutsideSchedule, "the schedule next opens at %s", next.UTC().Format(time.RFC3339))
}

func staleData(_ *corev1.Pod, p Plan, w World) *Refusal {
	if p.Urgent || w.DataUntil.IsZero() || w.StaleAfter == 0 {
		return nil
	}
	if age := w.Now.Sub(w.DataUntil); age > w.StaleAfter {
		return wait(ReasonStaleData, "the newest usage data is %s old, more than %s", age.Round(time.Second), w.StaleAfter)
	}
	return nil
}

func tooLittleData(_ *corev1.Pod, p Plan, w World) *Refusal {
	if p.Urgent || w.DataPoints >= w.MinimumDataPoints {
		return nil
	}
	return wait(ReasonInsufficientData, "%d of %d data points", w.DataPoints, w.MinimumDataPoints)
}

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
	return wait(ReasonCooldown, "the workload cools down until %s", w.Now.Add(left).UTC().Format(time.RFC3339))
}

// nodePressure: short of disk or processes a kubelet defers every resize, even one that only lowers;
// short of memory, who asks for less is evicted earlier.
func nodePressure(pod *corev1.Pod, p Plan, w World) *Refusal {
	if len(w.Capabilities.Pressure) > 0 && !p.Urgent {
		return wait(ReasonNodePressure, "node %s reports %s and defers resizes", pod.Spec.NodeName, strings.Join(w.Capabilities.Pressure, ", "))
	}
	return nil
}

// reverting: after a harm nothing new is tried on a workload before its pods are put back.
func reverting(_ *corev1.Pod, p Plan, w World) *Refusal {
	for _, r := range w.Status.Records {
		if r.Phase == v1alpha1.RecordReverting && !p.Urgent {
			return wait(ReasonReverting, "pod %s is being put back after: %s", r.PodName, r.Reason)
		}
	}
	return nil
}

// tooManyOOMs: a resize makes a crash-looping container start again at once, so an endless one would
// restart for free for ever.
func tooManyOOMs(pod *corev1.Pod, p Plan, w World) *Refusal {
	bumps := 0
	for _, row := range w.Status.History {
		if row.Pod == pod.Name && row.Reason == string(HarmOOM) && w.Now.Sub(row.Timestamp.Time) < time.Hour {
			bumps++
		}
	}
	if p.Urgent && bumps >= mostBumps {
		return wait(ReasonTooManyOOMs, "it was resized %d times in an hour and OOM-killed every time", bumps)
	}
	return nil
}

// nodeBlocked: growth that a node put off is not stacked up; each holds the scheduler's room.
func nodeBlocked(pod *corev1.Pod, p Plan, w World) *Refusal {
	until := w.NodeBlock.All
	if p.Grows() && w.NodeBlock.Growth.After(until) {
		until = w.NodeBlock.Growth
	}
	if w.Now.Before(until) {
		return wait(ReasonNodeBlocked, "node %s put off or refused a resize lately; it is tried again after %s",
			pod.Spec.NodeName, until.UTC().Format(time.RFC3339))
	}
	return nil
}

// neighboursWait: a pod of the node is waiting for room itself, or was turned away for want of it.
func neighboursWait(pod *corev1.Pod, p Plan, w World) *Refusal {
	if !p.Grows() {
		return nil
	}
	for _, other := range w.Neighbours {
		turnedAway := other.Status.Phase == corev1.PodFailed && strings.HasPrefix(other.Status.Reason, "OutOf") &&
			w.Now.Sub(other.CreationTimestamp.Time) < blockFor
		if other.UID != pod.UID && (turnedAway || helpers.IsPodResizeDeferred(other)) {
			return wait(ReasonNodeBlocked, "pod %s/%s waits for room on node %s", other.Namespace, other.Name, pod.Spec.NodeName)
		}
	}
	return nil
}

// blockFor is how long a node is left alone after it put a resize off or refused it.
const blockFor = 10 * time.Minute

// mostBumps of a container after OOM kills are made in an hour.
const mostBumps = 4

// BlockOf is what a record that a node did not carry out says of that node: it has no room, or, where
// even lowering was put off, it takes no resize at all (pressure, a taint, a changed label, shutdown).
func BlockOf(record v1alpha1.ResizeRecord, reason string, now time.Time) NodeBlock {
	switch reason {
	case ReasonInfeasible, ReasonDeferred, ReasonUnobserved, ReasonTimeout:
	default:
		return NodeBlock{}
	}
	until := now.Add(blockFor)
	for _, c := range changesOf(record) {
		if raises(Move{From: c.prior, To: c.desired}) && (reason == ReasonInfeasible || reason == ReasonDeferred) {
			return NodeBlock{Growth: until}
		}
	}
	return NodeBlock{All: until}
}

// restartsLastReplica: a restart by resize passes every PodDisruptionBudget by, so it is kept from the
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

func withoutExcluded(_ *corev1.Pod, p Plan, w World) Plan {
	return narrowed(p, func(m Move) (recommender.Size, *Refusal) {
		if !w.Rules.Excluded[m.Container] {
			return m.To, nil
		}
		return m.From, refuseMove(ReasonExcluded, "the policy excludes it")
	})
}

// withoutHeld leaves alone what an autoscaler scales on, since changing a request moves its set point.
// An OOM floor is never held.
func withoutHeld(_ *corev1.Pod, p Plan, w World) Plan {
	for _, r := range recommender.Resources {
		if p.Urgent && r == recommender.Memory {
			continue
		}
		p = narrowed(p, func(m Move) (recommender.Size, *Refusal) {
			held := heldBy(w.HPA, m.Container, r)
			if held == "" {
				return m.To, nil
			}
			to := m.To
			to[r] = m.From[r]
			return to, refuseOf(r, ReasonHPA, "%s scales on its utilization, which follows the request", held)
		})
	}
	return p
}

// withoutFailedLimits: where a memory limit could not be lowered because of what the containers hold, page
// cache included, it is not tried again on the workload for a day; each try leaves a crashing container
// with the lower limit.
func withoutFailedLimits(_ *corev1.Pod, p Plan, w World) Plan {
	failed := slices.ContainsFunc(w.Status.History, func(row v1alpha1.HistoryEntry) bool {
		return row.Reason == ReasonActuation && w.Now.Sub(row.Timestamp.Time) < failedLimitRest
	})
	if !failed {
		return p
	}
	return narrowed(p, func(m Move) (recommender.Size, *Refusal) {
		return withoutMemoryLimitDecrease(m), refuseOf(recommender.Memory, ReasonMemoryInUse,
			"a memory limit of the workload could not be lowered within the last %s; it stays", failedLimitRest)
	})
}

// failedLimitRest is how long memory limits are left alone after one could not be lowered.
const failedLimitRest = 24 * time.Hour

func heldBy(holds map[string]Held, container string, r recommender.Resource) string {
	for _, name := range []string{container, ""} {
		if held := holds[name]; held.Of[r] {
			return "HorizontalPodAutoscaler " + held.By
		}
	}
	return ""
}

// narrowed applies a narrowing to every move and notes what it leaves out.
func narrowed(p Plan, narrow func(Move) (recommender.Size, *Refusal)) Plan {
	moves := make([]Move, 0, len(p.Moves))
	left := append([]Refusal{}, p.LeftOut...)
	for _, m := range p.Moves {
		to, refusal := narrow(m)
		if to != m.To && refusal != nil {
			refusal.Container = m.Container
			left = append(left, *refusal)
		}
		m.To = to
		moves = append(moves, m)
	}
	p.Moves, p.LeftOut = moves, left
	return p
}
