package resize

import (
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
	// WaveReboost gives a container that restarted its startup boost again. Its record stays open until the boost has
	// ended, and restores the size before it.
	WaveReboost = "reboost"
	// WaveTemplate restores the template's resources of a pod that has crashed since it was created, if admission set
	// less.
	WaveTemplate = "template"
	// WaveRestore restores a container's original resources after an OOM kill below them while attune is stopped.
	WaveRestore = "restore"
	// WaveSpike restores the old size of a container that was raised before an OOM kill, because the growth was a
	// spike.
	WaveSpike = "spike"
)

// Restores reports whether the wave restores a pod's original or template resources. Such a resize counts as harmless,
// is never reverted, and may wait for room without a deadline, as a revert does.
func Restores(wave string) bool {
	return wave == WaveUndo || wave == WaveTemplate || wave == WaveRestore
}

// kinds is a set of kinds of resizes, and of questions that only some gates answer. The table of gates uses it.
type kinds uint16

const (
	step kinds = 1 << iota
	// answers raise memory after an OOM kill, or before one (Plan.Urgent). They wait for nothing that only time lifts.
	answers
	// undos: users request them in spite of a pause. No pause, mode, schedule or cooldown blocks them.
	undos
	// templates revert a decrease by admission, so no pause, schedule, rollout or cooldown blocks them. Restarts and
	// disruption budgets do not matter, because the container crashes anyway.
	templates
	// restores: no setting that stops attune blocks them: neither a pause nor attune.io/skip, an excluded container or a
	// VPA. They are sent once per kill, and only while no other writer has resized the pod, so they conflict with none.
	restores
	// boosts: the end of a boost belongs to a pod's start. It completes what admission began, so it waits for no pause,
	// mode or excluded container, but only after a regression (backedOff): otherwise a pod that needs its boost would be
	// lowered and reverted for ever. No HPA blocks it: the autoscaler should calculate with the size without the boost.
	boosts
	// reboosts belong to the start of a container, so they wait for no wave, schedule, rollout, fresh data or cooldown.
	// An HPA that scales on the CPU request blocks them, because the replicas are counted while the pod starts.
	reboosts
	// spikes complete a raise, so they wait for no schedule, cooldown or rollout, and need no allowDecrease.
	spikes
	// The last four select gates for questions. standing: which gates block whatever the change is (Blocked). begins:
	// which gates depend on other plans (Fits). stopping: which gates are settings of users (Stopped). reverts: which
	// gates predict the API server's answer to a revert (WithinReach).
	standing
	begins
	stopping
	reverts

	// steps are resize steps towards a target.
	steps = step | standing
	all   = steps | answers | undos | templates | restores | boosts | reboosts | spikes
)

// errands are the kinds of errands, by wave.
var errands = map[string]kinds{WaveUndo: undos, WaveTemplate: templates, WaveRestore: restores, WaveBoost: boosts, WaveReboost: reboosts, WaveSpike: spikes}

func kindOf(p Plan) kinds {
	if kind, errand := errands[p.Wave]; errand {
		return kind
	}
	if p.Urgent {
		return answers
	}
	return step
}

// Stopped returns the setting that stops attune for a pod: a pause, a mode, an annotation or a VPA; nil if there is no
// such setting.
func Stopped(pod *corev1.Pod, in GateInput) *Refusal {
	return firstClosed(gates, stopping, pod, Plan{}, in)
}

// backedOff applies the workload's cooldown if its last resizes caused a regression; otherwise it allows everything.
func backedOff(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	if in.Status.Backoff == nil {
		return nil
	}
	return cooldown(pod, p, in)
}

// MostBoosts is how many open records startup boosts may use. The rest is reserved for growth after OOM kills and
// for resize steps towards targets, which a rollout of many boosted pods would otherwise block.
const MostBoosts = v1alpha1.MaxRecords * 3 / 5

// boostsFull refuses while MostBoosts boosts have a record.
func boostsFull(_ *corev1.Pod, _ Plan, in GateInput) *Refusal {
	if open := len(in.Status.Records) - openSteps(in.Status.Records, nil); open >= MostBoosts {
		return RefuseForNow(ReasonRecordsFull, "the startup boosts of %d pods of the workload are being added or removed, which is the maximum at a time", open)
	}
	return nil
}
