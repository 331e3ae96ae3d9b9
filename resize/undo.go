package resize

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
)

// ResultUndone is the result of a record that put a pod back because a person asked for that.
const ResultUndone = "Undone"

// ReasonUndo: a person asked for the sizes from before attune.
const ReasonUndo = "Undo"

// UndoPlan puts a pod back to its originals: what its containers had before attune. The refusal is
// ReasonNoChange where it has them.
func UndoPlan(pod *corev1.Pod, originals []podview.Container, caps Capabilities, now time.Time) (Plan, *Refusal) {
	plan, refusal := PlanFor(pod, originals, caps, now)
	plan.Wave, plan.Reason = WaveUndo, ReasonUndo
	return plan, refusal
}

// nextUndoing is the next action for an open record while its workload is being undone: whatever is not
// put back already is taken back first, as far as it has come. A resize that may still be on its way to the
// API server is waited for, or it would come after.
func nextUndoing(state State, record v1alpha1.ResizeRecord, next Action) Action {
	waited := []StateKind{Replaced, Terminal, Superseded, Harmed, Unsent, Landed}
	if restores(record.Wave) || PuttingBack(record) || next.Kind == Forget || slices.Contains(waited, state.Kind) {
		return next
	}
	return withdraw(ReasonUndo, state)
}

// nextResumed is the next action for an open record where nobody wants an undo any more: one that is still
// waiting to be carried out is taken back.
func nextResumed(state State, record v1alpha1.ResizeRecord, next Action) Action {
	if record.Wave == WaveUndo && next.Kind == Wait && waitsForKubelet(state) {
		return withdraw(ReasonUndo, state)
	}
	return next
}

// nextRestore of an errand that gives back, and that its kubelet has not carried out: as a revert, it has no deadline.
func nextRestore(state State, record v1alpha1.ResizeRecord) Action {
	return Action{Kind: Wait, Reason: record.Reason, RequeueAfter: pollEvery, Alert: state.Kind == Deferred,
		Message: "the size from before attune is asked for, and the pod does not have it yet: " + string(state.Kind) + " " + state.Message}
}

func waitsForKubelet(state State) bool {
	return state.Kind == Unobserved || state.Kind == Deferred || state.Kind == Actuating
}
