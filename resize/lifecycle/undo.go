package lifecycle

import (
	"slices"
	"time"

	"attune.io/attune/resize"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
)

// ResultUndone is the result of a record that put a pod back because a person asked for that.
const ResultUndone = "Undone"

// ReasonUndo is the reason of plans and records that put a pod back because a person asked for the sizes from
// before attune.
const ReasonUndo = "Undo"

// UndoPlan plans the way back of a pod to its originals, the sizes that its containers had before attune. It is
// PlanFor with the wave and reason of an undo; the refusal is ReasonNoChange where the pod already has them.
func UndoPlan(pod *corev1.Pod, originals []podview.Container, caps resize.Capabilities, now time.Time) (resize.Plan, *resize.Refusal) {
	plan, refusal := resize.PlanFor(pod, originals, caps, now)
	plan.Wave, plan.Reason = resize.WaveUndo, ReasonUndo
	return plan, refusal
}

// nextUndoing is the action for an open record while its workload is undone: everything that is not being put back
// yet is withdrawn first, as far as it has come. A resize that may still be on its way to the API server is waited
// for. Otherwise: undo is applied -> the late resize arrives -> the pod has the new size again.
func nextUndoing(state State, record v1alpha1.ResizeRecord, next Action) Action {
	waited := []StateKind{Replaced, Terminal, Superseded, Harmed, Unsent, Landed}
	if resize.Restores(record.Wave) || resize.PuttingBack(record) || next.Kind == Forget || slices.Contains(waited, state.Kind) {
		return next
	}
	return withdraw(ReasonUndo, state)
}

// nextResumed is the action for an open record where no undo is asked for: an undo that the kubelet has not
// carried out yet is withdrawn.
func nextResumed(state State, record v1alpha1.ResizeRecord, next Action) Action {
	if record.Wave == resize.WaveUndo && next.Kind == Wait && waitsForKubelet(state) {
		return withdraw(ReasonUndo, state)
	}
	return next
}

// nextRestore waits for the kubelet to carry out an undo or a birth plan. As a revert, it has no deadline.
func nextRestore(state State, record v1alpha1.ResizeRecord) Action {
	return Action{Kind: Wait, Reason: record.Reason, RequeueAfter: pollEvery, Alert: state.Kind == Deferred,
		Message: "the size from before attune is asked for, and the pod does not have it yet: " + string(state.Kind) + " " + state.Message}
}

// waitsForKubelet reports whether the API server has the resize and the kubelet has not carried it out.
func waitsForKubelet(state State) bool {
	return state.Kind == Unobserved || state.Kind == Deferred || state.Kind == Actuating
}
