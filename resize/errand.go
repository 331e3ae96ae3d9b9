package resize

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
)

// Waves of errands. An errand is a resize that is no step towards a target. It waits for no wave, schedule,
// cooldown or fresh data. What a person forbids and what the platform would refuse holds it as any other resize.
const (
	// WaveUndo puts a pod back to what it had before attune, because a person asked for that.
	WaveUndo = "undo"
	// WaveBoost takes back the CPU that a pod was given to start with.
	WaveBoost = "boost"
	// WaveBirth gives a pod that crashes since its birth what its template says, where admission gave it less.
	WaveBirth = "birth"
	// WaveRestore gives a container its original resources back that was killed below them while attune is stopped.
	WaveRestore = "restore"
	// WaveSpike gives a container its old size back that was raised before an OOM kill, as the growth was a spike.
	WaveSpike = "spike"
)

// restores reports whether the wave gives a pod back what it had before attune, or would have had. Such a resize
// counts as harmless, is never reverted, and may wait for room without a deadline, as a revert does.
func Restores(wave string) bool { return wave == WaveUndo || wave == WaveBirth || wave == WaveRestore }

// gate is a rule that refuses a plan, or returns nil.
type gate = func(*corev1.Pod, Plan, GateInput) *Refusal

// narrowing takes out of a plan what may not change now and notes it in LeftOut.
type narrowing = func(*corev1.Pod, Plan, GateInput) Plan

// rules are what a plan has to pass, in order: gates, narrowings, gates that look at what the narrowings left.
type rules struct {
	first  []gate
	narrow []narrowing
	last   []gate
}

var (
	// openGates are what every errand passes but a restore, switchGates what a person switches resizes off with.
	openGates   = []gate{optedOut, incomplete, namespaceTerminating, verticalAutoscaler, noRights, recordOpen, RecordsFull}
	switchGates = []gate{paused, mode, workloadPaused}
)

// errands have rules of their own, by wave, without those that hold back only what is new.
var errands = map[string]rules{
	// An undo is asked for by a person in spite of a pause, so it has no gate for pauses, modes, schedules or
	// cooldowns, and it may wait for room.
	WaveUndo: {
		openGates, []narrowing{withoutExcluded, withoutFailedLimits, withinLimitRanges},
		[]gate{memorySoon, restartsLastReplica, disruptionBudgets, limitRange, quota, triedLately},
	},
	// A birth plan gives back what admission took, as a revert does: no pause, schedule, rollout or cooldown holds
	// it. The gates for restarts and budgets are left out because the container crashes anyway.
	WaveBirth: {openGates, []narrowing{withoutExcluded, withinLimitRanges}, []gate{limitRange, quota, triedLately}},
	// Nothing that stops attune holds a restore, neither a pause nor attune.io/skip, an excluded container or a VPA:
	// it is sent once for each kill, and only while no other writer has resized the pod, so that it fights with none.
	WaveRestore: {
		[]gate{incomplete, namespaceTerminating, noRights, recordOpen, RecordsFull},
		[]narrowing{withinLimitRanges}, []gate{limitRange, quota, triedLately},
	},
	// The end of a boost is part of a pod's birth. It is paced only after harm (backedOff): otherwise a pod that
	// cannot do without its boost would be lowered and reverted for ever. The gate for HPAs is left out: the
	// autoscaler is to calculate with the size without the boost.
	WaveBoost: {
		slices.Concat(switchGates, openGates, []gate{boostsFull, reverting, backedOff, nodePressure}),
		[]narrowing{withoutExcluded, withinLimitRanges}, []gate{restartsLastReplica, disruptionBudgets, limitRange, triedLately},
	},
	// Giving a raise back is the end of it: it waits for no schedule, cooldown or rollout, and needs no allowDecrease. What
	// the platform does not lower stays.
	WaveSpike: {
		slices.Concat(switchGates, openGates, []gate{reverting, nodePressure}),
		[]narrowing{withoutExcluded, withoutFailedLimits, withinLimitRanges},
		[]gate{memorySoon, restartsLastReplica, disruptionBudgets, limitRange, triedLately},
	},
}

// Stopped returns what stops attune for a pod: a pause, a mode, an annotation or a VPA; nil: nothing does.
func Stopped(pod *corev1.Pod, in GateInput) *Refusal {
	return firstClosed([]gate{paused, mode, workloadPaused, optedOut, verticalAutoscaler}, pod, Plan{}, in)
}

// backedOff applies the cooldown of the workload where its last resizes did harm, and lets everything else pass.
func backedOff(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	if in.Status.Backoff == nil {
		return nil
	}
	return cooldown(pod, p, in)
}

// MostBoosts is how many open records the ends of boosts may take; the rest is reserved for growth after OOM kills
// and for steps towards targets, which a rollout of many boosted pods would otherwise hold up.
const MostBoosts = v1alpha1.MaxRecords * 3 / 5

// boostsFull refuses where as many boosts are being taken back as may be at once (MostBoosts).
func boostsFull(_ *corev1.Pod, _ Plan, in GateInput) *Refusal {
	if open := len(in.Status.Records) - steps(in.Status.Records, nil); open >= MostBoosts {
		return RefuseForNow(ReasonRecordsFull, "the boosts of %d pods of the workload are being taken back, which is the most there can be at once", open)
	}
	return nil
}
