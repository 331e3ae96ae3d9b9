package resize

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
)

// Waves of errands. An errand is a resize that is not a resize step towards a target. It waits for no wave, schedule,
// cooldown or fresh data. A user's settings and the platform's limits block it like any other resize.
const (
	// WaveUndo restores a pod's original resources because a user requested it.
	WaveUndo = "undo"
	// WaveBoost removes the startup CPU boost of a pod.
	WaveBoost = "boost"
	// WaveBirth restores the template's resources of a pod that has crashed since it was created, if admission set
	// less.
	WaveBirth = "birth"
	// WaveRestore restores a container's original resources after an OOM kill below them while attune is stopped.
	WaveRestore = "restore"
	// WaveSpike restores the old size of a container that was raised before an OOM kill, because the growth was a
	// spike.
	WaveSpike = "spike"
)

// Restores reports whether the wave restores a pod's original or template resources. Such a resize counts as harmless,
// is never reverted, and may wait for room without a deadline, as a revert does.
func Restores(wave string) bool { return wave == WaveUndo || wave == WaveBirth || wave == WaveRestore }

// gate is a rule that refuses a plan, or returns nil.
type gate = func(*corev1.Pod, Plan, GateInput) *Refusal

// narrowing removes changes that are blocked now from a plan and adds them to LeftOut.
type narrowing = func(*corev1.Pod, Plan, GateInput) Plan

// rules are checked in order: gates, narrowings, then the gates that check the narrowed plan.
type rules struct {
	first  []gate
	narrow []narrowing
	last   []gate
}

var (
	// openGates apply to every errand except a restore. switchGates are the settings by which users stop resizes.
	openGates   = []gate{optedOut, incomplete, namespaceTerminating, verticalAutoscaler, noRights, recordOpen, RecordsFull}
	switchGates = []gate{paused, mode, workloadPaused}
)

// errands have rules of their own, by wave, without the rules that block only new sizes.
var errands = map[string]rules{
	// A user requests an undo in spite of a pause, so it has no gate for pauses, modes, schedules or cooldowns, and it
	// may wait for room.
	WaveUndo: {
		openGates, []narrowing{withoutExcluded, withoutFailedLimits, withinLimitRanges},
		[]gate{memorySoon, restartsLastReplica, disruptionBudgets, limitRange, quota, triedLately},
	},
	// The plan reverts a decrease by admission, so no pause, schedule, rollout or cooldown blocks it. It has no
	// gates for restarts and disruption budgets, because the container crashes anyway.
	WaveBirth: {openGates, []narrowing{withoutExcluded, withinLimitRanges}, []gate{limitRange, quota, triedLately}},
	// No setting that stops attune blocks a restore: neither a pause nor attune.io/skip, an excluded container or a
	// VPA. It is sent once per kill, and only while no other writer has resized the pod, so that it conflicts with
	// none.
	WaveRestore: {
		[]gate{incomplete, namespaceTerminating, noRights, recordOpen, RecordsFull},
		[]narrowing{withinLimitRanges}, []gate{limitRange, quota, triedLately},
	},
	// The end of a boost belongs to a pod's start. It waits only after a regression (backedOff): otherwise a pod that
	// needs its boost would be lowered and reverted for ever. It has no gate for HPAs: the autoscaler should calculate
	// with the size without the boost.
	WaveBoost: {
		slices.Concat(switchGates, openGates, []gate{boostsFull, reverting, backedOff, nodePressure}),
		[]narrowing{withoutExcluded, withinLimitRanges}, []gate{restartsLastReplica, disruptionBudgets, limitRange, triedLately},
	},
	// Restoring the size after a raise completes that raise: it waits for no schedule, cooldown or rollout, and needs
	// no allowDecrease. An amount that the platform does not lower stays.
	WaveSpike: {
		slices.Concat(switchGates, openGates, []gate{reverting, nodePressure}),
		[]narrowing{withoutExcluded, withoutFailedLimits, withinLimitRanges},
		[]gate{memorySoon, restartsLastReplica, disruptionBudgets, limitRange, triedLately},
	},
}

// Stopped returns the setting that stops attune for a pod: a pause, a mode, an annotation or a VPA; nil if there is no
// such setting.
func Stopped(pod *corev1.Pod, in GateInput) *Refusal {
	return firstClosed([]gate{paused, mode, workloadPaused, optedOut, verticalAutoscaler}, pod, Plan{}, in)
}

// backedOff applies the workload's cooldown if its last resizes caused a regression; otherwise it allows everything.
func backedOff(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	if in.Status.Backoff == nil {
		return nil
	}
	return cooldown(pod, p, in)
}

// MostBoosts is how many open records the ends of boosts may use. The rest is reserved for growth after OOM kills and
// for resize steps towards targets, which a rollout of many boosted pods would otherwise block.
const MostBoosts = v1alpha1.MaxRecords * 3 / 5

// boostsFull refuses while MostBoosts boosts are being removed.
func boostsFull(_ *corev1.Pod, _ Plan, in GateInput) *Refusal {
	if open := len(in.Status.Records) - steps(in.Status.Records, nil); open >= MostBoosts {
		return RefuseForNow(ReasonRecordsFull, "the startup boosts of %d pods of the workload are being removed, which is the maximum at a time", open)
	}
	return nil
}
