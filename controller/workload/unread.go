package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// What a pass could not read or settle, as the metric names it.
const (
	whatAutoscalers = "autoscalers"
	whatNamespace   = "namespace"
	whatNode        = "node"
	whatNodes       = "nodes"
	whatPod         = "pod"
	whatRoom        = "room"
	whatUnsettled   = "unsettled"
)

// unread is what a pass could not read, with why nothing new is begun for it. What is open goes on.
type unread struct {
	pods  map[types.UID]*resize.Refusal
	nodes map[string]*resize.Refusal
	// cluster: its nodes could not be listed, so that it is not known whether an evicted pod would find another one.
	cluster *resize.Refusal
}

func (u *unread) pod(uid types.UID, why *resize.Refusal) {
	if u.pods == nil {
		u.pods = map[types.UID]*resize.Refusal{}
	}
	u.pods[uid] = why
}

func (u *unread) node(name string, why *resize.Refusal) {
	if u.nodes == nil {
		u.nodes = map[string]*resize.Refusal{}
	}
	u.nodes[name] = why
}

// of is why nothing new is begun for a pod, or nil.
func (u unread) of(pod *corev1.Pod) *resize.Refusal {
	if why := u.pods[pod.UID]; why != nil {
		return why
	}
	return u.nodes[pod.Spec.NodeName]
}

// any: something could not be read.
func (u unread) any() bool { return len(u.pods)+len(u.nodes) > 0 || u.cluster != nil }

// notKnown counts a failed look, and makes it the reason why nothing is begun that rests on it.
func notKnown(ctx context.Context, what string, err error) *resize.Refusal {
	incomplete.WithLabelValues(what).Inc()
	log.FromContext(ctx).Error(err, "A pass goes on without what it could not read; nothing new rests on that", "what", what)
	return &resize.Refusal{Reason: resize.ReasonNotKnown, Transient: true, PodWide: true,
		Message: fmt.Sprintf("what it rests on could not be read, and is asked for again: %v", err)}
}

// close has a pass begin nothing new; the first reason stands.
func (w *world) close(why *resize.Refusal) {
	if w.closed == nil {
		w.closed = why
	}
}

// unsure: an action needs the pod as the API server has it, and that could not be read. What has done harm is taken
// back all the same, and so is what is on its way back already.
func (w world) unsure(record v1alpha1.ResizeRecord, action resize.Action, state resize.State) bool {
	again := resize.PuttingBack(record) && (action.Kind == resize.Revert || action.Kind == resize.Withdraw)
	return w.unread.pods[record.PodUID] != nil && state.Kind != resize.Harmed && !again && needsLivePod(action)
}
