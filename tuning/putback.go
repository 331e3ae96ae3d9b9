package tuning

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// reverter puts pods back to what they had before a resize, as far as the API server takes it.
type reverter struct {
	*pass
	gates *gates
}

// putBackAsFar sends what puts a pod back, as far as the API server will take it; the record stays open until
// all of it is back. Where nothing is within reach nothing is sent and nothing is written: what is in the way wakes
// the workload when it changes.
func (d *reverter) putBackAsFar(pod *corev1.Pod, before, record v1alpha1.ResizeRecord) (sends bool) {
	plan, nothing := resize.RevertPlan(pod, record, d.gates.capabilities(pod))
	if nothing != nil {
		return true
	}
	plan, limit := d.gates.withinReach(pod, plan)
	if limit != nil {
		d.refused.waitFor(pod, limit)
		d.stillToPutBack(record, limit.Reason, limit.Reason+": "+limit.Message)
	}
	if plan.Empty() {
		return false
	}
	d.out.Writes = append(d.out.Writes, Write{Pod: pod, Plan: plan})
	if resize.PuttingBack(before) && !d.view.Looked.Live[pod.UID] && d.view.Looked.Unread.Pods[pod.UID] == nil {
		d.out.Unknowns.Live = append(d.out.Unknowns.Live, pod.UID)
	}
	return true
}

// canPutBack: some of a pod's prior size is within reach.
func (d *reverter) canPutBack(pod *corev1.Pod, record v1alpha1.ResizeRecord) bool {
	if pod == nil {
		return false
	}
	plan, nothing := resize.RevertPlan(pod, record, d.gates.capabilities(pod))
	if nothing != nil {
		return false
	}
	plan, _ = d.gates.withinReach(pod, plan)
	return !plan.Empty()
}

// waitsToBePutBack tells of a pod whose old size is asked for, and whose node does not give it.
// Where that has stopped, a kubelet that has not seen it yet is not on its way.
func (d *reverter) waitsToBePutBack(record v1alpha1.ResizeRecord, action resize.Action, state resize.State) {
	switch {
	case action.Alert:
		d.stillToPutBack(record, string(state.Kind), action.Message)
	case resize.PuttingBack(record) && state.Kind != resize.Applied && d.view.nodeNotReady(record.Node):
		d.stillToPutBack(record, downNode, fmt.Sprintf("node %s is not ready: %s", record.Node, action.Message))
	}
}

// downNode is what is in the way of a pod whose node is down.
const downNode = "NodeNotReady"

// stillToPutBack alerts a person while the operator goes on trying.
func (d *reverter) stillToPutBack(record v1alpha1.ResizeRecord, reason, why string) {
	d.out.Status.Tries, why = resize.Obstacle(d.out.Status.Tries, record.PodUID, reason, why)
	d.out.Pending = append(d.out.Pending, fmt.Sprintf("pod %s does not have its old size back: %s", record.PodName, why))
	d.tellOf(record, revertPending(record, why))
}

// giveUp ends the putting back of a pod that did not come about: a person has to do it.
func (d *reverter) giveUp(record v1alpha1.ResizeRecord, why string) {
	d.out.Status.Tries = resize.NotPutBack(d.out.Status.Tries, record, why, d.view.Now)
	d.tell(revertGivenUp(record, why))
}

// remember has a row for each pod that is being put back, and drops rows that are over.
func (d *reverter) remember() {
	live := func(uid types.UID) bool { return d.view.Pod(uid) != nil }
	d.out.Status.Tries = resize.PutBacks(d.out.Status.Tries, d.out.Status.Records, live, d.view.Now)
}

// noteTries remembers what a record says did not work: as soon as that is known, and at the latest when it closes.
func (d *reverter) noteTries(record v1alpha1.ResizeRecord, action resize.Action, state resize.State) {
	switch {
	case fails(record, action), resize.PuttingBack(record) && action.Kind == resize.Forget:
		d.out.Status.Tries = resize.NotDone(d.out.Status.Tries, record, action.Reason, state.Message, d.view.Policy.Settings.Resize, d.view.Now)
	case action.Kind == resize.Forget && action.Reason == resize.ReasonNotSent:
		d.out.Status.Tries = resize.Unheard(d.out.Status.Tries, record, d.view.Now)
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

// pause is how long a pod is not asked again to be put back; 0: it is asked now.
func (d *reverter) pause(record v1alpha1.ResizeRecord) time.Duration {
	if d.view.Operator.NoRightsUrgent != "" {
		return RightsEvery
	}
	last, asked := d.view.Past.AskedAt[record.PodUID]
	if !asked {
		return 0
	}
	return max(0, last.Add(resize.PutBackEvery(record, d.view.Rec.Status.Tries, d.view.Now)).Sub(d.view.Now))
}
