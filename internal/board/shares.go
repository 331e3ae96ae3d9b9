package board

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// AsItIs says why a pod counts with what it holds instead of taking part in the sharing of its node: a word, and a
// sentence that follows it. Empty: it takes part. The recommendation is that of the pod's workload; nil: there is none.
func AsItIs(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) (reason, message string) {
	switch {
	case rec == nil:
		return "NoPolicy", "no policy sizes its workload"
	case rec.Spec.Strategy != v1alpha1.StrategyNode:
		return "Strategy", "its policy's strategy is not Node"
	case rec.Spec.Mode != v1alpha1.UpdateAuto:
		return resize.ReasonMode, "its policy's mode leaves running pods as they are; Auto resizes them"
	case rec.Spec.Workload.Kind == v1alpha1.KindJob || rec.Spec.Workload.Kind == v1alpha1.KindCronJob:
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

// tooGreat: a container has a request or a limit that no node has.
func tooGreat(pod *corev1.Pod) bool {
	return slices.ContainsFunc(podview.Read(pod), func(c podview.Container) bool {
		return slices.ContainsFunc(c.Size[:], func(a recommender.Allocation) bool {
			return a.Request > podview.Plausible || a.Limit > podview.Plausible
		})
	})
}

// demandKnown: of some container something is.
func demandKnown(rec *v1alpha1.AttuneRecommendation) bool {
	return slices.ContainsFunc(rec.Spec.Containers, func(t v1alpha1.ContainerTarget) bool {
		return t.Demand != nil && (t.Demand.CPUPeak != nil || t.Demand.MemoryPeak != nil)
	})
}

// Frozen says why a pod that takes part in the sharing keeps what it holds, as far as the pod and its
// recommendation show; gates may hold it beside, which only the workload loop knows. Empty: nothing does. A pod whose
// eviction is written down is not frozen: its node has to say with each look that it still does not fit.
func Frozen(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) (reason, message string) {
	for _, record := range rec.Status.Records {
		switch {
		case record.PodUID != pod.UID:
		case resize.Leaving(record):
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

// Leaving: the pod's eviction for want of room is written down.
func Leaving(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) bool {
	return slices.ContainsFunc(rec.Status.Records, func(record v1alpha1.ResizeRecord) bool {
		return record.PodUID == pod.UID && resize.Leaving(record)
	})
}

// GroupOf names the pods that are taken to spike together with those of a workload: its own, or those of its policy's
// node.group. It never reaches beyond the namespace, so that nobody chooses himself a neighbour's group.
func GroupOf(rec *v1alpha1.AttuneRecommendation) string {
	if rec.Spec.NodeGroup != "" {
		return GroupIn(rec.Namespace, rec.Spec.NodeGroup)
	}
	return rec.Namespace + "/" + workload.IdentityOf(rec).String()
}

// GroupIn names the pods of a namespace that are said to spike together. It is no workload's: kinds begin with a
// capital letter.
func GroupIn(namespace, group string) string { return namespace + "/group/" + group }
