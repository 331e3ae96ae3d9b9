package workload

import (
	"maps"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	helpers "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// podChanged passes what an assessment reads: the spec, conditions, container states and resources.
// Kubelets touch pods for other reasons too.
func podChanged() predicate.Predicate {
	return updated(func(before, after *corev1.Pod) bool {
		return before.Generation != after.Generation ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) ||
			!equality.Semantic.DeepEqual(before.Status, after.Status)
	})
}

// roomFreed passes pods that leave room on their node: gone, ended, smaller, or no longer waiting for room.
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

// nodeChanged passes nodes that may answer resizes otherwise than before, not their heartbeats.
func nodeChanged() predicate.Predicate {
	return updated(func(before, after *corev1.Node) bool { return !resize.SameTerms(before, after) })
}

// quotaChanged passes what a quota allows and what is used of it.
func quotaChanged() predicate.Predicate {
	return updated(func(before, after *corev1.ResourceQuota) bool {
		return !equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.Status, after.Status)
	})
}

// scalingChanged passes HPAs whose spec changed; their status moves every 15 s.
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

// updated passes creations and deletions, and updates that changed something.
func updated[T client.Object](changed func(before, after T) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return changed(e.ObjectOld.(T), e.ObjectNew.(T))
	}}
}
