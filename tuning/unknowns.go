package tuning

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
)

// Unknowns are inputs of a decision that were not read yet. The loop reads them before it carries out the decision. A
// reconcile without a change has none, so an idle cluster costs no extra reads.
type Unknowns struct {
	// Rooms are names of nodes on which pods grow. The loop sums the footprint of their pods.
	Rooms []string
	// Live are pods to read from the API server, because their records are to be reverted or given up and the cache
	// may be stale.
	Live []types.UID
	// Memory are pods whose memory limit is to be lowered or added. The loop reads the current usage of their
	// containers, in bytes.
	Memory []types.UID
	// Lately are pods with a raise that waits, or is capped, unless it is due. The loop reads their recent usage.
	Lately []types.UID
	// Nodes asks for all nodes of the cluster: is there one for the successor of a pod to be evicted, or for a pod
	// that was created larger than its template?
	Nodes bool
	// Stalled are pods that do not start. The loop reads the kubelet's reason.
	Stalled []types.UID
	// Before are the queries whose results the records of new resizes store. The loop sends them to the usage source.
	Before []harm.Question
}

// None reports whether everything is known, so that the decision can be carried out.
func (q Unknowns) None() bool {
	return len(q.Rooms)+len(q.Live)+len(q.Memory)+len(q.Lately)+len(q.Stalled)+len(q.Before) == 0 && !q.Nodes
}

// askRoom asks for the room of a node on which a pod grows, unless it is known or could not be read. It also asks for
// the memory of a pod whose limit was left out because its usage is not known.
func (q *Unknowns) askRoom(v *View, pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal) {
	node := pod.Spec.NodeName
	if refusal == nil && node != "" && plan.Grows() && v.Looked.Rooms[node] == nil && v.Looked.Unread.Nodes[node] == nil && !slices.Contains(q.Rooms, node) {
		q.Rooms = append(q.Rooms, node)
	}
	q.askUnknownMemory(v, pod, plan)
}

// askUnknownMemory asks for the memory usage of a pod if a limit was left out because the usage is not known.
func (q *Unknowns) askUnknownMemory(v *View, pod *corev1.Pod, plan resize.Plan) {
	unknown := func(r resize.Refusal) bool { return r.Reason == resize.ReasonMemoryUnknown }
	if slices.ContainsFunc(plan.LeftOut, unknown) {
		q.askMemory(v, pod.UID)
	}
}

// askLoweredMemory asks for the memory of every plan that lowers a limit, if one of the plans that start now does. It
// asks for all at once, because the answer may block one pod, and another then takes its place.
func (q *Unknowns) askLoweredMemory(v *View, going, all []resize.Plan) {
	if !slices.ContainsFunc(going, lowersUnweighed) {
		return
	}
	for _, plan := range all {
		if lowersUnweighed(plan) {
			q.askMemory(v, plan.PodUID)
		}
	}
}

// lowersUnweighed reports whether a plan lowers the memory limit of a container whose usage is not known. Lowering it
// without knowing could kill the container.
func lowersUnweighed(plan resize.Plan) bool {
	return plan.LowersMemoryLimit() && slices.ContainsFunc(plan.Moves, func(m resize.Move) bool {
		return m.MemoryUsage == 0 && m.To[recommender.Memory].Limit != m.From[recommender.Memory].Limit
	})
}

// askMemory asks for the memory of a pod once, and not again if there is an answer, even an empty one.
func (q *Unknowns) askMemory(v *View, pod types.UID) {
	if _, known := v.Usage.Memory[pod]; !known && !slices.Contains(q.Memory, pod) {
		q.Memory = append(q.Memory, pod)
	}
}

// askLive asks for a pod from the API server before its record is reverted or given up. A pod whose revert is in
// progress is read only before a patch (putBackAsFar): otherwise every reconcile would read it.
func (q *Unknowns) askLive(v *View, pod *corev1.Pod, record v1alpha1.ResizeRecord, action lifecycle.Action) {
	if pod != nil && !action.PutsBackAgain(record) && needsLivePod(action) {
		q.askPod(v, pod.UID)
	}
}

// askPod asks for a pod from the API server, unless it was read or could not be read.
func (q *Unknowns) askPod(v *View, pod types.UID) {
	if !v.Looked.Live[pod] && v.Looked.Unread.Pods[pod] == nil {
		q.Live = append(q.Live, pod)
	}
}

// askBefore asks once per reconcile for the results that the record of a new resize stores. UrgentPart does not wait
// for a usage source, nor does a restore, so their records have none.
func (q *Unknowns) askBefore(v *View, plan resize.Plan) {
	if v.Part == WholePass && v.Looked.Before == nil && !resize.Restores(plan.Wave) {
		q.Before = harm.QuestionsBefore(v.Policy.Settings.Resize)
	}
}

// needsLivePod reports that an action cannot be reverted, or needs the pod's resourceVersion in its patch. The cache
// may be stale and is not enough then.
func needsLivePod(action lifecycle.Action) bool {
	switch action.Kind {
	case lifecycle.Revert, lifecycle.Withdraw, lifecycle.StepBack, lifecycle.Evict, lifecycle.SendRest:
		return true
	case lifecycle.Forget:
		return action.Reason == resize.ReasonNotSent || action.Reason == resize.ReasonSuperseded
	}
	return false
}

// Unread is the data that a reconcile could not read, and the refusals of new resizes that need it. Open records
// continue. The zero value: everything was read.
type Unread struct {
	// Pods are the pods that could not be read, by uid.
	Pods map[types.UID]*resize.Refusal
	// Nodes are the nodes that could not be read, by name. No resize begins for any pod on them.
	Nodes map[string]*resize.Refusal
	// Cluster is why the cluster's nodes could not be listed, so that it is not known whether an evicted pod would
	// find another node; nil: they were listed, or not needed.
	Cluster *resize.Refusal
}

// of returns why no resize begins for a pod: the pod or its node could not be read; nil: both were read.
func (u Unread) of(pod *corev1.Pod) *resize.Refusal {
	if why := u.Pods[pod.UID]; why != nil {
		return why
	}
	return u.Nodes[pod.Spec.NodeName]
}

// Any reports whether any data could not be read.
func (u Unread) Any() bool { return len(u.Pods)+len(u.Nodes) > 0 || u.Cluster != nil }
