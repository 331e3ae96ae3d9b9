// Package cluster answers the questions of the kubelets' scraper (embedded.Cluster) from the caches of the
// operator: which nodes there are, where a pod runs, and of which pods more than usage is wanted.
//
// It reads AttuneRecommendation, Pod and Node objects from a cache, and never asks the API server itself or
// changes an object. It exists because package embedded knows no Kubernetes client.
package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/workload"
	"attune.io/attune/usage/embedded"
)

// Reader is an embedded.Cluster. It is safe for concurrent use, as its cache is.
type Reader struct {
	// Cache holds nodes, pods and recommendations. Lists share memory with it, so nothing that it returns is
	// changed.
	Cache client.Reader
	// Cached returns whether the cache has the objects of a namespace. The cache refuses questions about any other
	// namespace with an error. It must not be nil.
	Cached func(namespace string) bool
}

var _ embedded.Cluster = Reader{}

// Nodes implements embedded.Cluster. A node without a usable address is an entry of unusable; err is the cache's.
func (r Reader) Nodes(ctx context.Context) (nodes []embedded.Node, unusable []error, err error) {
	list := &corev1.NodeList{}
	if err := r.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range list.Items {
		node, err := embedded.NodeOf(&list.Items[i])
		if err != nil {
			unusable = append(unusable, err)
			continue
		}
		nodes = append(nodes, node)
	}
	return nodes, unusable, nil
}

// Watched implements embedded.Cluster: the pods with an open record of a resize.
func (r Reader) Watched(ctx context.Context) (map[embedded.Pod]string, error) {
	list, err := r.recommendations(ctx)
	return withRecords(list), err
}

// withRecords are the pods with an open record of a resize, and their nodes.
func withRecords(list []v1alpha1.AttuneRecommendation) map[embedded.Pod]string {
	watched := map[embedded.Pod]string{}
	for i := range list {
		for _, record := range list[i].Status.Records {
			watched[embedded.Pod{Namespace: list[i].Namespace, Name: record.PodName}] = record.Node
		}
	}
	return watched
}

// Followed implements embedded.Cluster: the running pods of workloads of the strategy Node in mode Auto. Pods
// without a node are left out.
func (r Reader) Followed(ctx context.Context) (map[embedded.Pod]string, error) {
	list, err := r.recommendations(ctx)
	if err != nil {
		return nil, err
	}
	followed := map[embedded.Pod]string{}
	for i := range list {
		// Only these pods are looked up: to find the pods of all workloads would cost more than the scrape.
		if !sizedByNode(&list[i]) {
			continue
		}
		pods, err := owners.Pods(ctx, r.Cache, workload.IdentityOf(&list[i]))
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

// sizedByNode returns whether a workload's running pods are sized by their nodes (strategy Node in mode Auto).
// Only for those the time that they waited for CPU is part of their base.
func sizedByNode(rec *v1alpha1.AttuneRecommendation) bool {
	return rec.Spec.Strategy == v1alpha1.StrategyNode && rec.Spec.Mode == v1alpha1.UpdateAuto
}

// NodeOf implements embedded.Cluster. A pod of a namespace that is not cached has no node: kubelets tell of every pod.
func (r Reader) NodeOf(ctx context.Context, pod embedded.Pod) (string, error) {
	if !r.Cached(pod.Namespace) {
		return "", nil
	}
	found := &corev1.Pod{}
	if err := r.Cache.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Name}, found); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return found.Spec.NodeName, nil
}

// There returns whether a pod is in the cache. It is true where the cache fails, so that a failing cache drops
// nothing.
func (r Reader) There(namespace, name string) bool {
	if !r.Cached(namespace) {
		return false
	}
	err := r.Cache.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Pod{})
	return !apierrors.IsNotFound(err)
}

// recommendations lists all recommendations of the cache. The caller must not change them.
func (r Reader) recommendations(ctx context.Context) ([]v1alpha1.AttuneRecommendation, error) {
	list := &v1alpha1.AttuneRecommendationList{}
	if err := r.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing recommendations: %w", err)
	}
	return list.Items, nil
}
