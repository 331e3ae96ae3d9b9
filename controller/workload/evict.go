package workload

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

// sendEvictions asks the Eviction API for the pods of a decision, whose records are stored as "evicting",
// and notes denials in status. A granted eviction is not noted: the pod shows it. A PodDisruptionBudget is
// checked by the API server, not here.
func (c sender) sendEvictions(ctx context.Context, rec *v1alpha1.AttuneRecommendation, d tuning.Decision, status *v1alpha1.AttuneRecommendationStatus) {
	for _, pod := range d.Evictions {
		err := c.Client.SubResource("eviction").Create(ctx, pod, evictionOf(pod))
		outcome := lifecycle.ClassifyEviction(err)
		log.FromContext(ctx).Info("Asked to evict a pod", "pod", pod.Name, "outcome", outcome, "error", err)
		if outcome == lifecycle.EvictionGranted {
			continue
		}
		c.Events.Send(pod, rec, event.Warning(v1alpha1.EventEvictionDenied, "Pod %s is not evicted now, and is asked for again: %v", pod.Name, err))
		if outcome == lifecycle.EvictionDenied {
			countEviction(rec, outcome)
			tuning.NotEvicted(rec, status, pod.UID)
		}
	}
}

// evictionOf asks for the very pod that was looked at, in the version that was looked at: a pod that
// changed meanwhile is not evicted but decided about anew.
func evictionOf(pod *corev1.Pod) *policyv1.Eviction {
	return &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
			UID: &pod.UID, ResourceVersion: &pod.ResourceVersion,
		}},
	}
}
