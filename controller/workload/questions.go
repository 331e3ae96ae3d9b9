package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// questions are what a decision rests on without having looked at it: it is looked at before anything is done. A
// pass that does nothing has none.
type questions struct {
	// rooms are nodes that pods are to grow on.
	rooms []string
	// live are pods whose records are to be put back or given up: the cache may be behind.
	live []types.UID
	// memory are pods whose memory limit is to be lowered or added: what they hold now.
	memory []types.UID
	// nodes: whether there is one for the successor of a pod that is to be evicted.
	nodes bool
}

// none are left.
func (q questions) none() bool { return len(q.rooms)+len(q.live)+len(q.memory) == 0 && !q.nodes }

// ask asks for the room of a node that a pod is to grow on, and for the memory of a pod that gets no limit for want
// of knowing it.
func (d *decision) ask(w world, pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal) {
	node := pod.Spec.NodeName
	if refusal == nil && node != "" && plan.Grows() && w.rooms[node] == nil && w.unread.nodes[node] == nil && !slices.Contains(d.asks.rooms, node) {
		d.asks.rooms = append(d.asks.rooms, node)
	}
	d.askUnknown(w, pod, plan)
}

// askUnknown asks what a pod's containers hold where a limit was left out for want of knowing it.
func (d *decision) askUnknown(w world, pod *corev1.Pod, plan resize.Plan) {
	unknown := func(r resize.Refusal) bool { return r.Reason == resize.ReasonMemoryUnknown }
	if slices.ContainsFunc(plan.LeftOut, unknown) {
		d.weigh(w, pod.UID)
	}
}

// askMemory asks what the containers hold whose limit any of some plans lowers, where one of those that go now does:
// what is found may have another one go in its place.
func (d *decision) askMemory(w world, going, all []resize.Plan) {
	if !slices.ContainsFunc(going, lowersUnweighed) {
		return
	}
	for _, plan := range all {
		if lowersUnweighed(plan) {
			d.weigh(w, plan.PodUID)
		}
	}
}

// lowersUnweighed: the plan lowers the memory limit of a container of which nobody knows what it holds.
func lowersUnweighed(plan resize.Plan) bool {
	return plan.LowersMemoryLimit() && slices.ContainsFunc(plan.Moves, func(m resize.Move) bool {
		return m.MemoryUsage == 0 && m.To[recommender.Memory].Limit != m.From[recommender.Memory].Limit
	})
}

func (d *decision) weigh(w world, pod types.UID) {
	if _, known := w.memory[pod]; !known && !slices.Contains(d.asks.memory, pod) {
		d.asks.memory = append(d.asks.memory, pod)
	}
}

// askLive asks for a pod as the API server has it before its record is put back or given up. One that is being put back
// already is asked for when a patch is sent (putBackAsFar).
func (d *decision) askLive(w world, pod *corev1.Pod, record v1alpha1.ResizeRecord, action resize.Action) {
	again := resize.PuttingBack(record) && (action.Kind == resize.Revert || action.Kind == resize.Withdraw)
	if pod == nil || again || w.seenLive[pod.UID] || w.unread.pods[pod.UID] != nil {
		return
	}
	if needsLivePod(action) {
		d.asks.live = append(d.asks.live, pod.UID)
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

// learnOfNode notes what a record says of its node that did not carry it out. A record is believed only of the node that
// its pod is on: whoever writes records must not have nodes blocked that the workload has nothing to do with.
func (d *decision) learnOfNode(w world, pod *corev1.Pod, record v1alpha1.ResizeRecord, action resize.Action, state resize.State) {
	if fails(record, action) && isOn(pod, record.Node) {
		d.lessons = append(d.lessons, lesson{w.rec.Namespace, record, action.Reason, state.Message})
	}
}

func isOn(pod *corev1.Pod, node string) bool { return pod != nil && pod.Spec.NodeName == node }

// capabilities are what a pod's node can do, with what this pass learned of it.
func (d *decision) capabilities(w world, pod *corev1.Pod) resize.Capabilities {
	return w.capabilities(pod).With(d.facts(w, pod.Spec.NodeName))
}
