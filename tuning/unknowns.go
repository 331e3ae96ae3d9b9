package tuning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// lookup asks for what a decision rests on and was not looked at.
type lookup struct{ *pass }

// Unknowns are what a decision rests on without having looked at it: it is looked at before anything is done. A pass
// that does nothing has none.
type Unknowns struct {
	// Rooms are nodes that pods are to grow on.
	Rooms []string
	// Live are pods whose records are to be put back or given up: the cache may be behind.
	Live []types.UID
	// Memory are pods whose memory limit is to be lowered or added: what they hold now.
	Memory []types.UID
	// Nodes: whether there is one for the successor of a pod that is to be evicted.
	Nodes bool
}

// None are left.
func (q Unknowns) None() bool { return len(q.Rooms)+len(q.Live)+len(q.Memory) == 0 && !q.Nodes }

// room asks for the room of a node that a pod is to grow on, and for the memory of a pod that gets no limit for want
// of knowing it.
func (d *lookup) room(pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal) {
	node := pod.Spec.NodeName
	if refusal == nil && node != "" && plan.Grows() && d.view.Looked.Rooms[node] == nil && d.view.Looked.Unread.Nodes[node] == nil && !slices.Contains(d.out.Unknowns.Rooms, node) {
		d.out.Unknowns.Rooms = append(d.out.Unknowns.Rooms, node)
	}
	d.unknownMemory(pod, plan)
}

// unknownMemory asks what a pod's containers hold where a limit was left out for want of knowing it.
func (d *lookup) unknownMemory(pod *corev1.Pod, plan resize.Plan) {
	unknown := func(r resize.Refusal) bool { return r.Reason == resize.ReasonMemoryUnknown }
	if slices.ContainsFunc(plan.LeftOut, unknown) {
		d.memory(pod.UID)
	}
}

// loweredMemory asks what the containers hold whose limit any of some plans lowers, where one of those that go now does:
// what is found may have another one go in its place.
func (d *lookup) loweredMemory(going, all []resize.Plan) {
	if !slices.ContainsFunc(going, lowersUnweighed) {
		return
	}
	for _, plan := range all {
		if lowersUnweighed(plan) {
			d.memory(plan.PodUID)
		}
	}
}

// lowersUnweighed: the plan lowers the memory limit of a container of which nobody knows what it holds.
func lowersUnweighed(plan resize.Plan) bool {
	return plan.LowersMemoryLimit() && slices.ContainsFunc(plan.Moves, func(m resize.Move) bool {
		return m.MemoryUsage == 0 && m.To[recommender.Memory].Limit != m.From[recommender.Memory].Limit
	})
}

func (d *lookup) memory(pod types.UID) {
	if _, known := d.view.Usage.Memory[pod]; !known && !slices.Contains(d.out.Unknowns.Memory, pod) {
		d.out.Unknowns.Memory = append(d.out.Unknowns.Memory, pod)
	}
}

// live asks for a pod as the API server has it before its record is put back or given up. One that is being put back
// already is asked for when a patch is sent (putBackAsFar).
func (d *lookup) live(pod *corev1.Pod, record v1alpha1.ResizeRecord, action resize.Action) {
	if pod == nil || action.PutsBackAgain(record) || d.view.Looked.Live[pod.UID] || d.view.Looked.Unread.Pods[pod.UID] != nil {
		return
	}
	if needsLivePod(action) {
		d.out.Unknowns.Live = append(d.out.Unknowns.Live, pod.UID)
	}
}

// needsLivePod: the action cannot be taken back, or names the pod's version, and the cache may be behind.
func needsLivePod(action resize.Action) bool {
	switch action.Kind {
	case resize.Revert, resize.Withdraw, resize.Evict, resize.SendRest:
		return true
	case resize.Forget:
		return action.Reason == resize.ReasonNotSent || action.Reason == resize.ReasonSuperseded
	}
	return false
}
