package main

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"attune.io/attune/api/v1alpha1"
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
	return false, mgr.Add(noClusterPolicies(api, clock.RealClock{}))
}

// servesClusterPolicies asks the API server.
func servesClusterPolicies(api coreResources) (bool, error) {
	return serves(api, v1alpha1.GroupVersion, func(r metav1.APIResource) bool { return r.Kind == string(v1alpha1.PolicyKindCluster) })
}

// errClusterPolicies ends a process that began without AttuneClusterPolicies.
var errClusterPolicies = errors.New("the API server serves AttuneClusterPolicies now: the next process uses them")

// noClusterPolicies waits until the API server serves them.
func noClusterPolicies(api coreResources, clock clock.WithTicker) unserved {
	return unserved{
		said: "AttuneClusterPolicies are not used: the CRD attuneclusterpolicies.attune.io is missing. Apply those of the chart (crd-files)",
		ask:  func(context.Context) (bool, error) { return servesClusterPolicies(api) }, every: time.Minute,
		served: errClusterPolicies, clock: clock,
	}
}
