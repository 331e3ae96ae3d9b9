package workload

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
)

// putBackAsFar sends what puts a pod back, as far as the API server will take it; the record stays open until
// all of it is back. Where nothing is within reach nothing is sent and nothing is written: what is in the way wakes
// the workload when it changes.
func (d *decision) putBackAsFar(w world, pod *corev1.Pod, before, record v1alpha1.ResizeRecord) (sends bool) {
	plan, nothing := resize.RevertPlan(pod, record, d.capabilities(w, pod))
	if nothing != nil {
		return true
	}
	plan, limit := d.withinReach(w, pod, plan)
	if limit != nil {
		d.refused.waitFor(pod, limit)
		d.stillToPutBack(record, limit.Reason, limit.Reason+": "+limit.Message)
	}
	if plan.Empty() {
		return false
	}
	d.writes = append(d.writes, write{pod: pod, plan: plan})
	if resize.PuttingBack(before) && !w.seenLive[pod.UID] && w.unread.pods[pod.UID] == nil {
		d.asks.live = append(d.asks.live, pod.UID)
	}
	return true
}

// withinReach is as much of a revert as the API server will take, and what is in the way of the rest.
func (d *decision) withinReach(w world, pod *corev1.Pod, plan resize.Plan) (resize.Plan, *resize.Refusal) {
	return resize.WithinReach(pod, plan, resize.World{
		Now: w.now, LimitRanges: w.limits, Quotas: w.quotas, Capabilities: d.capabilities(w, pod),
	})
}

// canPutBack: something of a pod's old size would be asked for by an action. It is asked for once before it is given up:
// an operator that was away does not know what has changed.
func (d *decision) canPutBack(w world, pod *corev1.Pod, record v1alpha1.ResizeRecord, action resize.Action) bool {
	if pod == nil || action.Kind != resize.Revert && action.Kind != resize.Withdraw {
		return false
	}
	plan, nothing := resize.RevertPlan(pod, record, d.capabilities(w, pod))
	if nothing != nil {
		return false
	}
	plan, _ = d.withinReach(w, pod, plan)
	return !plan.Empty()
}

// waitsToBePutBack tells of a pod whose old size is asked for, and whose node does not give it.
// Where that has stopped, a kubelet that has not seen it yet is not on its way.
func (d *decision) waitsToBePutBack(w world, record v1alpha1.ResizeRecord, action resize.Action, state resize.State) {
	switch {
	case action.Alert:
		d.stillToPutBack(record, string(state.Kind), action.Message)
	case resize.PuttingBack(record) && state.Kind != resize.Applied && w.nodeNotReady(record.Node):
		d.stillToPutBack(record, downNode, fmt.Sprintf("node %s is not ready: %s", record.Node, action.Message))
	}
}

// downNode is what is in the way of a pod whose node is down.
const downNode = "NodeNotReady"

// stillToPutBack alerts a person while the operator goes on trying.
func (d *decision) stillToPutBack(record v1alpha1.ResizeRecord, reason, why string) {
	d.status.Tries, why = resize.Obstacle(d.status.Tries, record.PodUID, reason, why)
	d.pending = append(d.pending, fmt.Sprintf("pod %s does not have its old size back: %s", record.PodName, why))
	d.tellOf(record, event.Warning(v1alpha1.EventRevertPending, "Pod %s does not have its old size back, and it is asked for again: %s", record.PodName, why))
}

// giveUp ends the putting back of a pod that did not come about: a person has to do it.
func (d *decision) giveUp(w world, record v1alpha1.ResizeRecord, why string) {
	d.status.Tries = resize.NotPutBack(d.status.Tries, record, why, w.now)
	d.tell(event.Warning(v1alpha1.EventRevertPending, "%s", leftAt(record.PodName, why)))
}

// leftBehind tells of a pod that was not put back; empty: there is none.
func (d *decision) leftBehind() string {
	i := slices.IndexFunc(d.status.Tries, func(t v1alpha1.Try) bool { return t.What == v1alpha1.TryGivenUp })
	if i < 0 {
		return ""
	}
	return leftAt(d.status.Tries[i].Pod, d.status.Tries[i].Message)
}

func leftAt(pod, why string) string {
	if pod == "" {
		pod = "of the workload"
	}
	return fmt.Sprintf("pod %s was to have its old size back and keeps the one it has, as that was given up: %s; remove what is in the way, "+
		"or delete the pod: its successor is not born with the size that did harm", pod, why)
}

// remember has a row for each pod that is being put back, and drops rows that are over.
func (d *decision) remember(w world) {
	live := func(uid types.UID) bool { return w.pod(uid) != nil }
	d.status.Tries = resize.PutBacks(d.status.Tries, d.status.Records, live, w.now)
}

// noteTries remembers what a record says did not work: as soon as that is known, and at the latest when it closes.
func (d *decision) noteTries(w world, record v1alpha1.ResizeRecord, action resize.Action, state resize.State) {
	switch {
	case fails(record, action), resize.PuttingBack(record) && action.Kind == resize.Forget:
		d.status.Tries = resize.NotDone(d.status.Tries, record, action.Reason, state.Message, w.settings.Resize, w.now)
	case action.Kind == resize.Forget && action.Reason == resize.ReasonNotSent:
		d.status.Tries = resize.Unheard(d.status.Tries, record, w.now)
	}
}

// fails: a resize turns out not to be carried out, or only without a memory limit.
func fails(record v1alpha1.ResizeRecord, action resize.Action) bool {
	switch action.Kind {
	case resize.Withdraw, resize.Revert:
		return !resize.PuttingBack(record)
	case resize.SendRest:
		return action.Reason == resize.ReasonActuation
	}
	return false
}

// orphaned: the policy or the workload is gone or going, so that its pods are to be sized no longer.
func (w world) orphaned() bool {
	return w.policyGone || w.workload == nil || w.rec.DeletionTimestamp != nil
}
