package tuning

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/resize"
)

// Unread is what a pass could not read, with why nothing new is begun for it. What is open goes on.
type Unread struct {
	Pods  map[types.UID]*resize.Refusal
	Nodes map[string]*resize.Refusal
	// Cluster: its nodes could not be listed, so that it is not known whether an evicted pod would find another one.
	Cluster *resize.Refusal
}

// SetPod notes a pod that could not be read.
func (u *Unread) SetPod(uid types.UID, why *resize.Refusal) {
	if u.Pods == nil {
		u.Pods = map[types.UID]*resize.Refusal{}
	}
	u.Pods[uid] = why
}

// SetNode notes a node that could not be read.
func (u *Unread) SetNode(name string, why *resize.Refusal) {
	if u.Nodes == nil {
		u.Nodes = map[string]*resize.Refusal{}
	}
	u.Nodes[name] = why
}

// of is why nothing new is begun for a pod, or nil.
func (u Unread) of(pod *corev1.Pod) *resize.Refusal {
	if why := u.Pods[pod.UID]; why != nil {
		return why
	}
	return u.Nodes[pod.Spec.NodeName]
}

// Any: something could not be read.
func (u Unread) Any() bool { return len(u.Pods)+len(u.Nodes) > 0 || u.Cluster != nil }
