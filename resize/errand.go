package resize

import (
	corev1 "k8s.io/api/core/v1"
)

// Errands are resizes that are no step towards a target, by the wave that their records name. They wait
// for no wave, schedule, cooldown or fresh data; what a person forbids and what the platform would refuse
// holds them as it holds any other resize.
const (
	// WaveUndo puts a pod back to what it had before attune, because a person asked for that.
	WaveUndo = "undo"
	// WaveBoost takes back the CPU that a pod was given to start with.
	WaveBoost = "boost"
	// WaveBirth gives a pod that crashes since its birth what its template says, where admission gave it less.
	WaveBirth = "birth"
)

// restores: an errand gives a pod back what it had before attune, or would have. It does no harm of its own, and waits for
// room as a revert does.
func restores(wave string) bool { return wave == WaveUndo || wave == WaveBirth }

type gate = func(*corev1.Pod, Plan, World) *Refusal

type narrowing = func(*corev1.Pod, Plan, World) Plan

// rulesOf are what a plan has to pass, in order: an undo is not held by what only holds what is new.
func rulesOf(p Plan) (first []gate, narrow []narrowing, last []gate) {
	switch p.Wave {
	case WaveUndo:
		return undoGates, undoNarrowings, undoLastGates
	case WaveBirth:
		return birthGates, birthNarrowings, birthLastGates
	case WaveBoost:
		return boostGates, boostNarrowings, boostLastGates
	}
	return gates, narrowings, lastGates
}

// An undo is what a person wants in spite of a pause, and it may wait for room as a revert does.
var (
	undoGates      = []gate{optedOut, incomplete, namespaceTerminating, verticalAutoscaler, noRights, recordOpen, RecordsFull}
	undoNarrowings = []narrowing{withoutExcluded, withoutFailedLimits, withinLimitRanges}
	undoLastGates  = []gate{memorySoon, restartsLastReplica, disruptionBudgets, limitRange, quota, triedLately}
)

// What admission took is given back as a revert is: no pause, schedule, rollout or cooldown holds it. A container that
// crashes is not restarted too early.
var (
	birthGates      = []gate{optedOut, incomplete, namespaceTerminating, verticalAutoscaler, noRights, recordOpen, RecordsFull}
	birthNarrowings = []narrowing{withoutExcluded, withinLimitRanges}
	birthLastGates  = []gate{limitRange, quota, triedLately}
)

// The end of a boost is part of a pod's birth. It is paced only after harm: then it cools down as anything
// else does, or a pod that cannot do without would be tried for ever. An HPA does not hold it, since it gives
// back what the autoscaler is to count with.
var (
	boostGates = []gate{
		paused, mode, workloadPaused, optedOut, incomplete, namespaceTerminating, verticalAutoscaler, noRights,
		recordOpen, RecordsFull, boostsFull, reverting, backedOff, nodePressure,
	}
	boostNarrowings = []narrowing{withoutExcluded, withinLimitRanges}
	boostLastGates  = []gate{restartsLastReplica, disruptionBudgets, limitRange, triedLately}
)

// backedOff is the cooldown of a workload whose last resizes did harm.
func backedOff(pod *corev1.Pod, p Plan, w World) *Refusal {
	if w.Status.Backoff == nil {
		return nil
	}
	return cooldown(pod, p, w)
}
