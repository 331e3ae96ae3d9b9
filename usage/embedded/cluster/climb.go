package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/owners"
	"attune.io/attune/podview"
	"attune.io/attune/usage/embedded"
)

// Limits returns the memory limits of a pod's containers, in bytes, where its workload is in a mode in which they are
// raised before an OOM kill; nil: it is not, or the pod is not there.
func (r Reader) Limits(ctx context.Context, pod embedded.Pod) (map[string]float64, error) {
	found, rec, err := r.sized(ctx, pod)
	if err != nil || rec == nil || !raises(rec) {
		return nil, err
	}
	limits := map[string]float64{}
	for _, c := range podview.Resizable(found) {
		if limit := c.Resources.Limits.Memory(); !limit.IsZero() {
			limits[c.Name] = limit.AsApproximateFloat64()
		}
	}
	return limits, nil
}

// Raised returns the namespaces with workloads in such a mode.
func (r Reader) Raised(ctx context.Context) (map[string]bool, error) {
	list, err := r.recommendations(ctx)
	if err != nil {
		return nil, err
	}
	raised := map[string]bool{}
	for i := range list {
		if raises(&list[i]) {
			raised[list[i].Namespace] = true
		}
	}
	return raised, nil
}

// raises reports whether a workload is in a mode in which memory is raised before an OOM kill.
func raises(rec *v1alpha1.AttuneRecommendation) bool {
	return rec.Spec.Mode == v1alpha1.UpdateCanary || rec.Spec.Mode == v1alpha1.UpdateAuto
}

// Recommendation returns the name of the recommendation of a pod's workload; false: there is none.
func (r Reader) Recommendation(ctx context.Context, pod embedded.Pod) (types.NamespacedName, bool) {
	_, rec, err := r.sized(ctx, pod)
	if err != nil || rec == nil {
		return types.NamespacedName{}, false
	}
	return client.ObjectKeyFromObject(rec), true
}

// sized returns a pod and its workload's recommendation, which are not to be changed; nil: one of them is not there.
func (r Reader) sized(ctx context.Context, pod embedded.Pod) (*corev1.Pod, *v1alpha1.AttuneRecommendation, error) {
	if !r.Cached(pod.Namespace) {
		return nil, nil, nil
	}
	found := &corev1.Pod{}
	if err := r.Cache.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Name}, found, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	rec, err := owners.Recommendation(ctx, r.Cache, found)
	if err != nil || rec == nil {
		return nil, nil, err
	}
	return found, rec, nil
}
