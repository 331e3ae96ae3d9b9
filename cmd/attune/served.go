package main

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	workloadloop "attune.io/attune/controller/workload"
)

// coreResources lists what an API server serves of a group version; discovery clients do.
type coreResources interface {
	// ServerResourcesForGroupVersion lists the resources and subresources of a group version, such as v1.
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// addServed adds the runnable that watches whether the API server serves pods/resize (KEP-1287).
func addServed(mgr ctrl.Manager) (*workloadloop.Served, error) {
	api, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	served := &workloadloop.Served{Clock: clock.RealClock{}, Ask: func(context.Context) (bool, error) { return servesResize(api) }}
	return served, mgr.Add(served)
}

// servesResize returns whether the core group has the subresource pods/resize.
func servesResize(api coreResources) (bool, error) {
	core, err := api.ServerResourcesForGroupVersion("v1")
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(core.APIResources, func(r metav1.APIResource) bool { return r.Name == "pods/resize" }), nil
}
