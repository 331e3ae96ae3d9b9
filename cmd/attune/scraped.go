package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/usage/embedded"
)

// scrapedPods answers the scraper's questions about pods from the caches: the node of each pod, and the pods for which the
// scraper needs more than usage. It never reads from the API server and changes no objects. It is safe for concurrent
// use, as its cache is.
type scrapedPods struct {
	// cache holds nodes, pods and recommendations. Its lists share memory with it, so callers must not change them.
	cache client.Reader
	// cached reports whether the cache has the objects of a namespace. For other namespaces, the cache returns an
	// error. It must not be nil.
	cached func(namespace string) bool
}

// scrapedNodes implements embedded.Cluster for the nodes that a selector matches.
type scrapedNodes struct {
	scrapedPods
	selector labels.Selector
}

// Nodes implements embedded.Cluster. Its error is the cache's.
func (r scrapedNodes) Nodes(ctx context.Context) (nodes []embedded.Node, err error) {
	list := &corev1.NodeList{}
	if err := r.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range list.Items {
		nodes = append(nodes, embedded.NodeOf(&list.Items[i], r.selector))
	}
	return nodes, nil
}

// NamespacesOn implements embedded.Cluster. A finished pod needs no usage.
func (r scrapedPods) NamespacesOn(ctx context.Context, node string) ([]string, error) {
	list := &corev1.PodList{}
	if err := r.cache.List(ctx, list, client.MatchingFields{workload.PodsByNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	namespaces := sets.New[string]()
	for i := range list.Items {
		if !resize.Finished(&list.Items[i]) {
			namespaces.Insert(list.Items[i].Namespace)
		}
	}
	return sets.List(namespaces), nil
}

// Watched implements embedded.Cluster. It returns the pods with an in-flight resize.
func (r scrapedPods) Watched(ctx context.Context) (map[embedded.Pod]string, error) {
	list, err := r.recommendations(ctx)
	return withRecords(list), err
}

// withRecords returns the pods with an in-flight resize, and their nodes.
func withRecords(list []v1alpha1.AttuneRecommendation) map[embedded.Pod]string {
	watched := map[embedded.Pod]string{}
	for i := range list {
		for _, record := range list[i].Status.Records {
			watched[embedded.Pod{Namespace: list[i].Namespace, Name: record.PodName}] = record.Node
		}
	}
	return watched
}

// Followed implements embedded.Cluster. It returns the scheduled pods of workloads with strategy Node in mode Auto, and
// their nodes.
func (r scrapedPods) Followed(ctx context.Context) (map[embedded.Pod]string, error) {
	list, err := r.recommendations(ctx)
	if err != nil {
		return nil, err
	}
	followed := map[embedded.Pod]string{}
	for i := range list {
		// Look up only these pods: to look up the pods of all workloads would cost more than the scrape.
		if !sizedByNode(&list[i]) {
			continue
		}
		pods, err := lookup.Pods(ctx, r.cache, workload.IdentityOf(&list[i]))
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			if pod.Spec.NodeName != "" {
				followed[embedded.Pod{Namespace: pod.Namespace, Name: pod.Name}] = pod.Spec.NodeName
			}
		}
	}
	return followed, nil
}

// sizedByNode reports whether a workload's running pods share their nodes (strategy Node in mode Auto). Only for these
// pods the base includes the time that they waited for CPU.
func sizedByNode(rec *v1alpha1.AttuneRecommendation) bool {
	return rec.Spec.Strategy == v1alpha1.StrategyNode && rec.Spec.Mode == v1alpha1.UpdateAuto
}

// NodeOf implements embedded.Cluster. It returns no node for a pod in a namespace that is not cached, because kubelets
// report every pod.
func (r scrapedPods) NodeOf(ctx context.Context, pod embedded.Pod) (string, error) {
	found, err := r.pod(ctx, pod)
	return found.Spec.NodeName, err
}

// There reports whether a pod is in the cache. If the cache fails it returns true, so that the failure drops no data.
func (r scrapedPods) There(namespace, name string) bool {
	found, err := r.pod(context.Background(), embedded.Pod{Namespace: namespace, Name: name})
	return err != nil || found.Name != ""
}

// pod returns a pod of the cache, or an empty pod if it does not exist. Callers must not change it.
func (r scrapedPods) pod(ctx context.Context, pod embedded.Pod) (*corev1.Pod, error) {
	found := &corev1.Pod{}
	if !r.cached(pod.Namespace) {
		return found, nil
	}
	err := r.cache.Get(ctx, client.ObjectKey(pod), found, client.UnsafeDisableDeepCopy)
	return found, client.IgnoreNotFound(err)
}

// recommendations lists all cached recommendations. Callers must not change them.
func (r scrapedPods) recommendations(ctx context.Context) ([]v1alpha1.AttuneRecommendation, error) {
	list := &v1alpha1.AttuneRecommendationList{}
	if err := r.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing recommendations: %w", err)
	}
	return list.Items, nil
}

// Limits returns the memory limits of a pod's containers in bytes if its workload is in a mode that raises memory
// before an OOM kill. It returns nil if not, or if the pod does not exist.
func (r scrapedPods) Limits(ctx context.Context, pod embedded.Pod) (map[string]float64, error) {
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
func (r scrapedPods) Raised(ctx context.Context) (map[string]bool, error) {
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

// raises reports whether the workload's mode allows raising memory before an OOM kill.
func raises(rec *v1alpha1.AttuneRecommendation) bool {
	return rec.Spec.Mode == v1alpha1.UpdateCanary || rec.Spec.Mode == v1alpha1.UpdateAuto
}

// Recommendation returns the name of the recommendation of a pod's workload; false if there is no recommendation.
func (r scrapedPods) Recommendation(ctx context.Context, pod embedded.Pod) (types.NamespacedName, bool) {
	_, rec, err := r.sized(ctx, pod)
	if err != nil || rec == nil {
		return types.NamespacedName{}, false
	}
	return client.ObjectKeyFromObject(rec), true
}

// sized returns a pod and its workload's recommendation; nil if one of them does not exist. Callers must not change
// them.
func (r scrapedPods) sized(ctx context.Context, pod embedded.Pod) (*corev1.Pod, *v1alpha1.AttuneRecommendation, error) {
	found, err := r.pod(ctx, pod)
	if err != nil || found.Name == "" {
		return nil, nil, err
	}
	rec, err := lookup.Recommendation(ctx, r.cache, found)
	return found, rec, err
}
