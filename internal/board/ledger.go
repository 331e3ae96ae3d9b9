package board

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// Ledger is the capacity of a node that strategy Node shares, and the pods that share it. Amounts are indexed by
// resource: millicores of CPU, bytes of memory.
type Ledger struct {
	// Allocatable is the node's capacity for pods. Fixed is the part that is not shared: the footprints of all other
	// pods, and the overhead of the members (RuntimeClass).
	Allocatable, Fixed [2]recommender.Amount
	// Members are the pods that share the rest, in the order of the input. They include frozen pods, which are not
	// resized for now.
	Members []*corev1.Pod
}

// LedgerOf computes the ledger of a node. It subtracts the scheduler's footprint of every pod that does not take part
// in the sharing. recommendation returns the AttuneRecommendation of a pod's workload, or nil.
//
// A pod with a known demand takes part even if it is frozen. Otherwise, the other pods would have to keep a whole
// reserve in addition to its footprint. So each pause or observation of a pod would evict its neighbours.
func LedgerOf(node *corev1.Node, pods []*corev1.Pod, recommendation func(*corev1.Pod) *v1alpha1.AttuneRecommendation) Ledger {
	l := Ledger{Allocatable: Allocatable(node)}
	for _, pod := range pods {
		taken := resize.Footprint(pod)
		if reason, _ := AsItIs(pod, recommendation(pod)); reason == "" {
			taken = podview.Overhead(pod)
			l.Members = append(l.Members, pod)
		}
		for _, r := range recommender.Resources {
			l.Fixed[r] += taken[r]
		}
	}
	return l
}

// Available returns the amounts that the members share. An amount is negative if the other pods hold more than the node
// has.
func (l Ledger) Available() [2]recommender.Amount {
	return [2]recommender.Amount{l.Allocatable[0] - l.Fixed[0], l.Allocatable[1] - l.Fixed[1]}
}

// Allocatable returns the capacity of a node for pods: millicores of CPU and bytes of memory; 0 if its status does not
// have it yet.
func Allocatable(node *corev1.Node) [2]recommender.Amount {
	return podview.Amounts(node.Status.Allocatable)
}

// AsItIs returns why a pod is counted at its current size instead of taking part in the sharing of its node: a
// CamelCase reason and a message. Both are empty if the pod takes part. rec is the recommendation of the pod's
// workload; nil if it has no recommendation. The first reason in the order below counts.
func AsItIs(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) (reason, message string) {
	switch {
	case rec == nil:
		return "NoPolicy", "no policy manages its workload"
	case rec.Spec.Strategy != v1alpha1.StrategyNode:
		return "Strategy", "its policy's strategy is not Node"
	case rec.Spec.Mode != v1alpha1.UpdateAuto:
		return resize.ReasonMode, "its policy's mode does not resize running pods; mode Auto does"
	case workload.Batch(rec.Spec.Workload.Kind):
		return "Batch", "pods of Jobs and CronJobs get their resources only at admission"
	case !demandKnown(rec):
		return resize.ReasonInsufficientData, "the demand of its workload is not known yet, or is blocked"
	case pod.DeletionTimestamp != nil:
		return resize.ReasonPodDeleted, "it is being deleted"
	case pod.Status.Phase != corev1.PodRunning:
		return resize.ReasonNotStarted, "it does not run yet"
	case pod.Spec.Resources != nil && (len(pod.Spec.Resources.Requests) > 0 || len(pod.Spec.Resources.Limits) > 0):
		return resize.ReasonPodLevelResources, "it has pod-level resources"
	case workload.Large(pod.Annotations):
		return resize.ReasonTooLarge, "it " + workload.WhatIsTooLarge
	case tooGreat(pod):
		return "AmountsTooGreat", "one of its amounts is too large for exact sums on the node"
	case podview.Guaranteed(pod):
		return "Guaranteed", "its request and limit stay as they were at its creation"
	}
	return "", ""
}

// tooGreat reports an amount that no node has (podview.Plausible). Sums with such an amount would overflow or lose
// precision, and one pod could falsify the shares of all others.
func tooGreat(pod *corev1.Pod) bool {
	return slices.ContainsFunc(podview.Read(pod), func(c podview.Container) bool {
		return slices.ContainsFunc(c.Size[:], func(a recommender.Allocation) bool {
			return a.Request > podview.Plausible || a.Limit > podview.Plausible
		})
	})
}

// demandKnown reports whether a peak is known for at least one resource of one container.
func demandKnown(rec *v1alpha1.AttuneRecommendation) bool {
	return slices.ContainsFunc(rec.Spec.Containers, func(t v1alpha1.ContainerTarget) bool {
		return t.Demand != nil && (t.Demand.CPUPeak != nil || t.Demand.MemoryPeak != nil)
	})
}

// Frozen returns why a pod that takes part in the sharing keeps its size, as shown by the pod and its recommendation. A
// gate that only the workload loop knows may block it in addition (Grants.Held). Both are empty if nothing blocks it. A
// pod with a recorded eviction for room is not frozen: every reconcile of its node decides again whether the pod fits.
func Frozen(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) (reason, message string) {
	for _, record := range rec.Status.Records {
		switch {
		case record.PodUID != pod.UID:
		case lifecycle.Leaving(record):
			return "", ""
		default:
			return resize.ReasonResizeUnderway, "its last resize is in progress or observed"
		}
	}
	if podview.Unfinished(pod) {
		return resize.ReasonResizeUnderway, "a decrease is in progress"
	}
	if resize.NeverRaised(pod) {
		return resize.ReasonCriticalPriority, "attune never raises a pod of this priority, so it does not lower it either"
	}
	return "", ""
}

// Leaving reports whether the recommendation records an eviction of the pod for lack of room.
func Leaving(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) bool {
	return slices.ContainsFunc(rec.Status.Records, func(record v1alpha1.ResizeRecord) bool {
		return record.PodUID == pod.UID && lifecycle.Leaving(record)
	})
}

// Wants returns the sizes of some containers in new pods of a workload of strategy Node. A container without a target
// has the zero value. nil: there is no recommendation, or the strategy is another one.
func Wants(rec *v1alpha1.AttuneRecommendation, of []podview.Container) []recommender.Size {
	if rec == nil || rec.Spec.Strategy != v1alpha1.StrategyNode {
		return nil
	}
	sizes := make([]recommender.Size, len(of))
	for i, c := range of {
		if t := TargetOf(rec, c.Name); t != nil {
			sizes[i] = podview.FromResources(t.Target)
		}
	}
	return sizes
}

// TargetOf returns the target of a container, which new pods of strategy Node get; nil if it has no target.
func TargetOf(rec *v1alpha1.AttuneRecommendation, container string) *v1alpha1.ContainerTarget {
	return podview.FirstIn(rec.Spec.Containers, func(t *v1alpha1.ContainerTarget) bool { return t.Name == container })
}

// GroupOf returns the name of the group of pods that are expected to spike together with those of a workload: its own
// group, or node.group of its policy. The name always contains the namespace, so that a user cannot join a group of
// another namespace.
func GroupOf(rec *v1alpha1.AttuneRecommendation) string {
	if rec.Spec.NodeGroup != "" {
		return GroupIn(rec.Namespace, rec.Spec.NodeGroup)
	}
	return rec.Namespace + "/" + workload.IdentityOf(rec).String()
}

// GroupIn returns the name of a named group of a namespace. It never equals the group of a workload: that
// has a kind in this place, and no kind is called group.
func GroupIn(namespace, group string) string { return namespace + "/group/" + group }
