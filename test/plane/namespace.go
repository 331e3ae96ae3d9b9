package plane

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// contents of a namespace that is being deleted, as far as they are played; Plane.Contents adds others.
var contents = []client.ObjectList{
	&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.DaemonSetList{}, &batchv1.CronJobList{}, &batchv1.JobList{}, &appsv1.ReplicaSetList{},
	&autoscalingv2.HorizontalPodAutoscalerList{}, &policyv1.PodDisruptionBudgetList{}, &corev1.ResourceQuotaList{}, &corev1.PodList{},
}

// namespaces empties those that are being deleted, and lets them go when nothing is left (pkg/controller/namespace).
func (p *Plane) namespaces(ctx context.Context, v *view) error {
	for _, ns := range v.namespaces {
		if ns.DeletionTimestamp == nil || len(ns.Spec.Finalizers) == 0 {
			continue
		}
		left := 0
		for _, kind := range append(append([]client.ObjectList(nil), contents...), p.Contents...) {
			n, err := p.empty(ctx, ns.Name, kind)
			if err != nil {
				return err
			}
			left += n
		}
		if left > 0 {
			continue
		}
		changed := ns.DeepCopy()
		changed.Spec.Finalizers = nil
		if err := ignoreStale(p.Client.SubResource("finalize").Update(ctx, changed)); err != nil {
			return err
		}
	}
	return nil
}

// empty deletes everything of a kind, and says how much is left: what has finalizers or a kubelet goes later.
func (p *Plane) empty(ctx context.Context, namespace string, kind client.ObjectList) (left int, err error) {
	list := kind.DeepCopyObject().(client.ObjectList)
	if err := p.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return 0, err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return 0, err
	}
	for _, o := range objects {
		left++
		object := o.(client.Object)
		if object.GetDeletionTimestamp() != nil {
			continue
		}
		if err := client.IgnoreNotFound(p.Client.Delete(ctx, object.DeepCopyObject().(client.Object))); err != nil {
			return left, err
		}
	}
	return left, nil
}
