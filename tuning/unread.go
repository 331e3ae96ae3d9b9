package tuning

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/resize"
)

// Unread is what a pass could not read, and why nothing new begins for it. Open records go on. The zero
// value: everything was read.
type Unread struct {
	// Pods are the pods that could not be read, by uid.
	Pods map[types.UID]*resize.Refusal
	// Nodes are the nodes that could not be read, by name; nothing new begins for any pod on them.
	Nodes map[string]*resize.Refusal
	// Cluster is why the cluster's nodes could not be listed, so that it is not known whether an evicted
	// pod would find another node; nil: they were listed, or not asked for.
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

// of returns why nothing new begins for a pod, or nil: the pod itself or its node could not be read.
func (u Unread) of(pod *corev1.Pod) *resize.Refusal {
	if why := u.Pods[pod.UID]; why != nil {
		return why
	}
	return u.Nodes[pod.Spec.NodeName]
}

// Any reports whether something could not be read.
func (u Unread) Any() bool { return len(u.Pods)+len(u.Nodes) > 0 || u.Cluster != nil }
