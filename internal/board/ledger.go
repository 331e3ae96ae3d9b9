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

// Ledger is what there is to share on a node, and among whom. Amounts are indexed by resource: millicores
// of CPU, bytes of memory.
type Ledger struct {
	// Allocatable is what the node has for pods. Others is what is not shared: the footprints of all other
	// pods, and the overhead of the members (RuntimeClass).
	Allocatable, Others [2]recommender.Amount
	// Members are the pods that share the rest, in the order in which they were given. They include frozen
	// pods, whose size may not be changed now.
	Members []*corev1.Pod
}

// LedgerOf computes the ledger of a node: from what the node has it takes off what the scheduler counts
// for every pod that does not take part in the sharing. recommendation returns that of a pod's workload,
// or nil.
//
// A pod whose demand is known takes part even if it is frozen. If it were taken off with what it holds,
// the others would have to keep a whole reserve beside it, and neighbours would be evicted whenever a pod
// is watched or paused.
func LedgerOf(node *corev1.Node, pods []*corev1.Pod, recommendation func(*corev1.Pod) *v1alpha1.AttuneRecommendation) Ledger {
	l := Ledger{Allocatable: Allocatable(node)}
	for _, pod := range pods {
		taken := resize.Footprint(pod)
		if reason, _ := AsItIs(pod, recommendation(pod)); reason == "" {
			taken = podview.Overhead(pod)
			l.Members = append(l.Members, pod)
		}
		for _, r := range recommender.Resources {
			l.Others[r] += taken[r]
		}
	}
	return l
}

// Available returns what the members share, by resource. It is negative where the other pods hold more
// than the node has.
func (l Ledger) Available() [2]recommender.Amount {
	return [2]recommender.Amount{l.Allocatable[0] - l.Others[0], l.Allocatable[1] - l.Others[1]}
}

// Allocatable returns what a node has for pods: millicores of CPU and bytes of memory; 0 where its status
// does not have it yet.
func Allocatable(node *corev1.Node) (has [2]recommender.Amount) {
	for _, r := range recommender.Resources {
		has[r] = podview.AmountIn(r, node.Status.Allocatable)
	}
	return has
}

// AsItIs returns why a pod counts with what it holds instead of taking part in the sharing of its node: a
// word for programs and a sentence that explains the word. Both empty: the pod takes part. rec is that of
// the pod's workload; nil: there is none. The first reason in the order below counts.
func AsItIs(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) (reason, message string) {
	switch {
	case rec == nil:
		return "NoPolicy", "no policy sizes its workload"
	case rec.Spec.Strategy != v1alpha1.StrategyNode:
		return "Strategy", "its policy's strategy is not Node"
	case rec.Spec.Mode != v1alpha1.UpdateAuto:
		return resize.ReasonMode, "its policy's mode leaves running pods as they are; Auto resizes them"
	case workload.Batch(rec.Spec.Workload.Kind):
		return "Batch", "pods of Jobs and CronJobs are sized at their birth alone"
	case !demandKnown(rec):
		return resize.ReasonInsufficientData, "the demand of its workload is not known yet, or held"
	case pod.DeletionTimestamp != nil:
		return resize.ReasonPodDeleted, "it is being deleted"
	case pod.Status.Phase != corev1.PodRunning:
		return resize.ReasonNotStarted, "it does not run yet"
	case pod.Spec.Resources != nil && (len(pod.Spec.Resources.Requests) > 0 || len(pod.Spec.Resources.Limits) > 0):
		return resize.ReasonPodLevelResources, "it has resources of its own, beside those of its containers"
	case workload.Large(pod.Annotations):
		return resize.ReasonTooLarge, "it " + workload.WhatIsTooLarge
	case tooGreat(pod):
		return "AmountsTooGreat", "an amount of it is so great that a node's amounts do not add up exactly beside it"
	case podview.Guaranteed(pod):
		return "Guaranteed", "request and limit stay as they were at its birth"
	}
	return "", ""
}

// tooGreat reports an amount that no node has (podview.Plausible). Sums with such an amount would overflow
// or lose precision, and one pod could falsify the shares of all others.
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

// Frozen returns why a pod that takes part in the sharing keeps what it holds, as far as the pod and its
// recommendation show it; a gate that only the workload loop knows may hold it in addition (Grants.Held).
// Both empty: nothing does. A pod whose eviction for room is recorded is not frozen: its node has to
// decide in each look whether the pod still does not fit.
func Frozen(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) (reason, message string) {
	for _, record := range rec.Status.Records {
		switch {
		case record.PodUID != pod.UID:
		case lifecycle.Leaving(record):
			return "", ""
		default:
			return resize.ReasonResizeUnderway, "its last resize is under way or watched"
		}
	}
	if podview.Unfinished(pod) {
		return resize.ReasonResizeUnderway, "a decrease of it is under way"
	}
	if resize.NeverRaised(pod) {
		return resize.ReasonCriticalPriority, "a pod of such a priority is never raised, so it is not lowered either"
	}
	return "", ""
}

// Leaving reports whether an eviction of the pod for want of room is recorded.
func Leaving(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) bool {
	return slices.ContainsFunc(rec.Status.Records, func(record v1alpha1.ResizeRecord) bool {
		return record.PodUID == pod.UID && lifecycle.Leaving(record)
	})
}

// TargetOf returns the target of a container, which new pods of strategy Node get; nil: there is none.
func TargetOf(rec *v1alpha1.AttuneRecommendation, container string) *v1alpha1.ContainerTarget {
	i := slices.IndexFunc(rec.Spec.Containers, func(t v1alpha1.ContainerTarget) bool { return t.Name == container })
	if i < 0 {
		return nil
	}
	return &rec.Spec.Containers[i]
}

// GroupOf returns the name of the pods that are expected to spike together with those of a workload: its
// own, or those of its policy's node.group. The name always has the namespace in it, so that a user cannot
// choose the group of another namespace.
func GroupOf(rec *v1alpha1.AttuneRecommendation) string {
	if rec.Spec.NodeGroup != "" {
		return GroupIn(rec.Namespace, rec.Spec.NodeGroup)
	}
	return rec.Namespace + "/" + workload.IdentityOf(rec).String()
}

// GroupIn returns the name of a named group of a namespace. It never equals a workload's own group: those
// begin with a kind, in capital letters.
func GroupIn(namespace, group string) string { return namespace + "/group/" + group }
