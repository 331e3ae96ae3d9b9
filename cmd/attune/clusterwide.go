package main

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/loop"
)

// addClusterwide returns whether the operator uses AttuneClusterPolicies. One that watches some namespaces only does
// not: the status and the finalizer of an object of the cluster would be another operator's too. Where the API server
// does not serve the kind, or does not let the operator watch it, because only a part of the chart was upgraded, none are
// used until it does: a cache that is never filled would keep everything else waiting.
func addClusterwide(mgr ctrl.Manager, c Config) (bool, error) {
	if len(c.process.watched) > 0 {
		return false, nil
	}
	api, err := askClusterPolicies(mgr.GetConfig())
	if err != nil {
		return false, err
	}
	used, err := api.used(context.Background())
	if err != nil || used {
		return used, err
	}
	return false, mgr.Add(noClusterPolicies(api, clock.RealClock{}))
}

// clusterPolicies asks the API server about the kind.
type clusterPolicies struct {
	api loop.Served
	may mayWatch
}

func askClusterPolicies(config *rest.Config) (clusterPolicies, error) {
	api, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return clusterPolicies{}, err
	}
	may, err := askMayWatch(config, []schema.GroupResource{v1alpha1.GroupVersion.WithResource("attuneclusterpolicies").GroupResource()})
	return clusterPolicies{api, may}, err
}

// used reports whether the API server serves the kind and lets the operator watch it.
func (c clusterPolicies) used(ctx context.Context) (bool, error) {
	served, err := loop.Serves(c.api, v1alpha1.GroupVersion, func(r metav1.APIResource) bool { return r.Kind == string(v1alpha1.PolicyKindCluster) })
	if err != nil || !served {
		return false, err
	}
	return c.may(ctx, metav1.NamespaceAll)
}

// errClusterPolicies ends a process that began without AttuneClusterPolicies.
var errClusterPolicies = errors.New("the API server serves AttuneClusterPolicies now, and the operator may watch them: the next process uses them")

// noClusterPolicies waits until they can be used.
func noClusterPolicies(api clusterPolicies, clock clock.WithTicker) unserved {
	return unserved{
		said: "AttuneClusterPolicies are not used: the CRD attuneclusterpolicies.attune.io is missing, or the operator may not list and watch them. Apply the CRDs of the chart (crd-files), and upgrade the release",
		ask:  api.used, every: time.Minute,
		served: errClusterPolicies, clock: clock,
	}
}
