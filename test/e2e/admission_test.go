package e2e

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// birth is a pod as the Deployment's ReplicaSet would create it, admitted in a dry run: what it would
// be born as, without disturbing the workload.
func birth(ctx context.Context, d *appsv1.Deployment, name string) (*corev1.Pod, error) {
	set, err := replicaSet(ctx, d)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: set.Name + "-", Namespace: d.Namespace, Labels: set.Spec.Template.Labels,
			Annotations: d.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID,
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Spec: *d.Spec.Template.Spec.DeepCopy(),
	}
	_ = name
	return pod, env.client.Create(ctx, pod, client.DryRunAll)
}

func replicaSet(ctx context.Context, d *appsv1.Deployment) (*appsv1.ReplicaSet, error) {
	sets := &appsv1.ReplicaSetList{}
	if err := env.client.List(ctx, sets, client.InNamespace(d.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
		return nil, err
	}
	for i := range sets.Items {
		if *sets.Items[i].Spec.Replicas > 0 {
			return &sets.Items[i], nil
		}
	}
	return nil, fmt.Errorf("%s has no ReplicaSet with pods", d.Name)
}

// bornWith checks the size of the first container of a pod that would be born now.
func bornWith(ctx context.Context, d *appsv1.Deployment, name string, want size) error {
	pod, err := birth(ctx, d, name)
	if err != nil {
		return err
	}
	if got := sizeOf(pod.Spec.Containers[0].Resources); got != want {
		return fmt.Errorf("born with %v, want %v", got, want)
	}
	return nil
}
