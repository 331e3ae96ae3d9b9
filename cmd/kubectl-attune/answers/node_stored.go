package answers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/decision"
	"attune.io/attune/internal/decision/stored"
	"attune.io/attune/internal/workload"
)

// StoredNode computes the answer from objects (package stored, as the web page does). It has no grants and no Decided: these
// are the leader's.
func StoredNode(node *corev1.Node, pods []corev1.Pod, recommendations []v1alpha1.AttuneRecommendation) decision.Node {
	of := map[types.NamespacedName]*v1alpha1.AttuneRecommendation{}
	for i := range recommendations {
		of[types.NamespacedName{Namespace: recommendations[i].Namespace, Name: recommendations[i].Name}] = &recommendations[i]
	}
	all := make([]*corev1.Pod, len(pods))
	for i := range pods {
		all[i] = &pods[i]
	}
	return stored.Node(node, all, func(pod *corev1.Pod) *v1alpha1.AttuneRecommendation {
		// The owner is found from the pod alone, by the rule that the operator uses.
		id, ok := workload.OwnerOf(pod, pod.Namespace, nil)
		if !ok {
			return nil
		}
		return of[types.NamespacedName{Namespace: id.Namespace, Name: id.RecommendationName()}]
	})
}
