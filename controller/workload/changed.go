package workload

import (
	"maps"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	helpers "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// podChanged passes changes of what an assessment reads: the spec, annotations, conditions, container
// states and resources. Kubelets touch pods for other reasons too.
func podChanged() predicate.Predicate {
	return updated(func(before, after *corev1.Pod) bool {
		return before.Generation != after.Generation ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) ||
			!equality.Semantic.DeepEqual(before.Status, after.Status)
	})
}

// recommendationChanged passes what the policy loop writes, deletions, and statuses that another writer
// changed. A status that this loop wrote itself is left out: a pass that has to go on asks for the next
// one, and an event for each own write would double the passes.
func recommendationChanged(by *stored) predicate.Predicate {
	return updated(func(before, after *v1alpha1.AttuneRecommendation) bool {
		return before.Generation != after.Generation || before.UID != after.UID ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!equality.Semantic.DeepEqual(before.Status, after.Status) && !by.own(after)
	})
}

// podInTrouble reports that a container of the pod has ended or is no longer ready, or that its kubelet
// does not carry out a resize. Such pods are looked at before others, because harm may have to be taken
// back.
func podInTrouble(old, new client.Object) bool {
	before, after := old.(*corev1.Pod), new.(*corev1.Pod)
	for _, condition := range []corev1.PodConditionType{corev1.PodReady, corev1.PodResizePending, corev1.PodResizeInProgress} {
		if got := reasonOf(after, condition); got != reasonOf(before, condition) && got != "" {
			return true
		}
	}
	return !maps.Equal(endsOf(before), endsOf(after))
}

// reasonOf returns why a condition shows that something is wrong with a pod; empty: it does not.
func reasonOf(pod *corev1.Pod, of corev1.PodConditionType) string {
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type != of:
		case of == corev1.PodReady && c.Status != corev1.ConditionTrue:
			return "NotReady"
		case of != corev1.PodReady && (c.Reason == corev1.PodReasonError || c.Reason == corev1.PodReasonInfeasible || c.Reason == corev1.PodReasonDeferred):
			return c.Reason
		}
	}
	return ""
}

// endsOf returns, for each container, a text that changes whenever the container ends. It is made of
// container ids and end times, so that the end of a container that is not restarted counts too.
func endsOf(pod *corev1.Pod) map[string]string {
	ends := map[string]string{}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range statuses {
			for _, ended := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
				if ended != nil {
					ends[s.Name] += ended.ContainerID + ended.FinishedAt.String() + " "
				}
			}
		}
	}
	return ends
}

// roomFreed passes pods that leave room on their node: gone, ended, smaller, or no longer waiting for
// room. New pods take room and are left out.
func roomFreed() predicate.Predicate {
	p := updated(func(before, after *corev1.Pod) bool {
		if helpers.IsPodResizeDeferred(before) && !helpers.IsPodResizeDeferred(after) {
			return true
		}
		took, takes := resize.Footprint(before), resize.Footprint(after)
		return takes[recommender.CPU] < took[recommender.CPU] || takes[recommender.Memory] < took[recommender.Memory]
	})
	p.CreateFunc = func(event.CreateEvent) bool { return false }
	return p
}

// nodeChanged passes nodes that may answer resizes otherwise than before, but not their heartbeats. A
// deleted node is first dropped from the loop's memory (forget): a new node may get its name.
func nodeChanged(forget func(node string)) predicate.Predicate {
	p := updated(func(before, after *corev1.Node) bool { return resize.TermsOf(before) != resize.TermsOf(after) })
	p.DeleteFunc = func(e event.DeleteEvent) bool {
		forget(e.Object.GetName())
		return true
	}
	return p
}

// quotaChanged passes changes of what a quota allows and of what is used of it.
func quotaChanged() predicate.Predicate {
	return updated(func(before, after *corev1.ResourceQuota) bool {
		return !equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.Status, after.Status)
	})
}

// budgetChanged passes changes of what a PodDisruptionBudget covers and of whether it allows a disruption.
// Its other counts move with every pod.
func budgetChanged() predicate.Predicate {
	return updated(func(before, after *policyv1.PodDisruptionBudget) bool {
		return before.Generation != after.Generation || before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
			before.Status.DisruptionsAllowed != after.Status.DisruptionsAllowed
	})
}

// scalingChanged passes HPAs whose spec changed; their status moves every 15 s, the default sync period of
// the HPA controller.
func scalingChanged() predicate.Predicate {
	return updated(func(before, after *autoscalingv2.HorizontalPodAutoscaler) bool {
		return !equality.Semantic.DeepEqual(before.Spec, after.Spec)
	})
}

// workloadChanged passes what a decision reads of a workload: its spec, its annotations and how its rollout is
// going. The rest of its status moves with every pod.
func workloadChanged() predicate.Predicate {
	return updated(func(before, after client.Object) bool {
		then, _ := workload.From(before)
		now, _ := workload.From(after)
		return before.GetGeneration() != after.GetGeneration() || !maps.Equal(then.Annotations, now.Annotations) ||
			then.Rollout != now.Rollout || then.Replicas != now.Replicas || then.Deleting != now.Deleting
	})
}

// updated passes creations and deletions, and the updates for which changed returns true.
func updated[T client.Object](changed func(before, after T) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return changed(e.ObjectOld.(T), e.ObjectNew.(T))
	}}
}
