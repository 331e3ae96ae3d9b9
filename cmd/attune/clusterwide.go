package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/loop"
)

// addClusterwide returns whether the operator uses AttuneClusterPolicies. One that watches some namespaces only does
// not: the status and the finalizer of an object of the cluster would be another operator's too. Where the API server
// does not serve the kind, because only the operator was upgraded, none are used until it does.
func addClusterwide(mgr ctrl.Manager, c Config) (bool, error) {
	if len(c.process.watched) > 0 {
		return false, nil
	}
	api, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return false, err
	}
	served, err := servesClusterPolicies(api)
	if err != nil || served {
		return served, err
	}
	return false, mgr.Add(unserved{api, clock.RealClock{}})
}

// servesClusterPolicies asks the API server.
func servesClusterPolicies(api coreResources) (bool, error) {
	group, err := api.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking the API server for %s: %w", v1alpha1.GroupVersion, err)
	}
	return slices.ContainsFunc(group.APIResources, func(r metav1.APIResource) bool { return r.Kind == string(v1alpha1.PolicyKindCluster) }), nil
}

// unserved waits until the API server serves AttuneClusterPolicies.
type unserved struct {
	api   coreResources
	clock clock.WithTicker
}

// errServed ends a process that began without AttuneClusterPolicies: the next one uses them.
var errServed = errors.New("the API server serves AttuneClusterPolicies now: the next process uses them")

// Start implements manager.Runnable. It ends with an error, and the process with it, once the kind is served.
func (u unserved) Start(ctx context.Context) error {
	log := ctrl.Log.WithName("cluster-policies")
	log.Info("AttuneClusterPolicies are not used: the CRD attuneclusterpolicies.attune.io is missing. Apply those of the chart (crd-files)")
	for range loop.Every(ctx, u.clock, wait.Jitter(time.Minute, 1)) {
		served, err := servesClusterPolicies(u.api)
		switch {
		case err != nil:
			log.Error(err, "Cannot ask the API server; asking again in a minute")
		case served:
			return errServed
		}
	}
	return nil
}
