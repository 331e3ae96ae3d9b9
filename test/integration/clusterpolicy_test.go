package integration

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	genericevent "sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"attune.io/attune/api/v1alpha1"
	policyloop "attune.io/attune/controller/policy"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/trim"
)

// everywhere is the policy loop in a manager that sees every namespace, as the operator runs it.
type everywhere struct {
	t *testing.T
	client.Client
	operator string
}

func newEverywhere(t *testing.T) everywhere {
	t.Helper()
	e := everywhere{t: t, Client: newClient(t)}
	e.operator = newNamespace(t, e)
	mgr, err := ctrl.NewManager(server, ctrl.Options{
		Scheme: newScheme(t), Cache: cache.Options{DefaultTransform: trim.Object},
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(t, err)
	policies := &policyloop.Controller{
		Confirmed: &board.Confirmed{},
		Client:    mgr.GetClient(), History: steady{}, Autoscalers: none{}, Clock: clock.RealClock{}, Operator: e.operator,
		Settings: lookup.Reader{Client: mgr.GetClient(), Operator: policy.Operator{Namespace: e.operator}, Clusterwide: true},
	}
	require.NoError(t, loop.Register(t.Context(), mgr.GetFieldIndexer(), workloadloop.Indexes()))
	require.NoError(t, policies.Register(mgr, make(chan genericevent.TypedGenericEvent[string])))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return e
}

// deployment asks for 4 CPUs and 4 GiB, of which the history uses one each.
func (e everywhere) deployment(namespace, name, priority string) {
	e.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Replicas = ptr.To(int32(0))
	d.Spec.Selector, d.Spec.Template = template(name, container(e.t, "cpu=4,memory=4Gi"))
	d.Spec.Template.Spec.PriorityClassName = priority
	require.NoError(e.t, e.Create(e.t.Context(), d))
	e.t.Cleanup(func() {
		require.NoError(e.t, client.IgnoreNotFound(e.Delete(context.WithoutCancel(e.t.Context()), d)))
	})
}

func (e everywhere) clusterPolicy(name, spec string) *v1alpha1.AttuneClusterPolicy {
	e.t.Helper()
	u := object(e.t, "AttuneClusterPolicy", spec)
	u.SetName(name)
	require.NoError(e.t, e.Create(e.t.Context(), u))
	p := &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	e.t.Cleanup(func() {
		require.NoError(e.t, client.IgnoreNotFound(e.Delete(context.WithoutCancel(e.t.Context()), p)))
	})
	return p
}

// sizedBy is which policy sizes the workload of a recommendation; empty: none.
func (e everywhere) sizedBy(namespace, name string) string {
	rec := &v1alpha1.AttuneRecommendation{}
	err := e.Get(e.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, rec)
	if err != nil || len(rec.Spec.Containers) == 0 {
		require.NoError(e.t, client.IgnoreNotFound(err))
		return ""
	}
	return policy.NameOf(rec.Spec.Policy)
}

func (e everywhere) until(want string, namespace, name string) {
	e.t.Helper()
	require.Eventually(e.t, func() bool { return e.sizedBy(namespace, name) == want }, patience, 50*time.Millisecond, "%s is to be sized by %q", namespace, want)
}

// TestOneEmptyClusterPolicy recommends everywhere, so it runs beside no other test.
func TestOneEmptyClusterPolicy(t *testing.T) {
	e := newEverywhere(t)
	shop, bank := newNamespace(t, e), newNamespace(t, e)
	for _, namespace := range []string{shop, bank, e.operator} {
		e.deployment(namespace, "web", "")
	}
	e.deployment(metav1.NamespaceSystem, "dns", "system-cluster-critical")
	t.Cleanup(func() { // what it recommended for others
		list, ctx := &v1alpha1.AttuneRecommendationList{}, context.WithoutCancel(t.Context())
		require.NoError(t, e.List(ctx, list))
		for i := range list.Items {
			if list.Items[i].Spec.Policy.Kind == v1alpha1.PolicyKindCluster {
				require.NoError(t, client.IgnoreNotFound(e.Delete(ctx, &list.Items[i])))
			}
		}
	})
	base := e.clusterPolicy("base", `{}`)
	const theBase = "AttuneClusterPolicy/base"
	e.until(theBase, shop, "deployment-web")
	e.until(theBase, bank, "deployment-web")
	status := func() v1alpha1.AttuneClusterPolicyStatus {
		require.NoError(t, e.Get(t.Context(), client.ObjectKeyFromObject(base), base))
		return base.Status
	}
	require.Eventually(t, func() bool { return meta.IsStatusConditionTrue(status().Conditions, v1alpha1.ConditionReady) }, patience, 100*time.Millisecond)
	assert.GreaterOrEqual(t, base.Status.Namespaces.Selected, int32(2))
	assert.GreaterOrEqual(t, base.Status.Workloads.WithRecommendations, int32(2))
	assert.Equal(t, v1alpha1.UpdateRecommend, base.Status.Mode)
	assert.Empty(t, e.sizedBy(e.operator, "deployment-web"), "not the operator's own namespace")
	assert.Empty(t, e.sizedBy(metav1.NamespaceSystem, "deployment-dns"))

	// A namespace's own policy wins, and what it leaves goes back.
	own := policyWith(t, `weight: 1`)
	own.SetNamespace(shop)
	own.SetName("own")
	require.NoError(t, e.Create(t.Context(), own))
	e.until("own", shop, "deployment-web")
	require.NoError(t, e.Delete(t.Context(), own))
	e.until(theBase, shop, "deployment-web")

	// kube-system joins where it is named, and its critical pods are not lowered.
	e.clusterPolicy("system", "namespaces: [kube-system]\nmemory: {allowDecrease: true}\nupdateStrategy: {type: Auto}")
	e.until("AttuneClusterPolicy/system", metav1.NamespaceSystem, "deployment-dns")
	rec := &v1alpha1.AttuneRecommendation{}
	require.NoError(t, e.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "deployment-dns"}, rec))
	for _, resource := range []string{"cpu", "memory"} {
		assert.True(t, slices.ContainsFunc(rec.Spec.Containers[0].Holds, func(h v1alpha1.Hold) bool { return h.Resource == resource && h.Reason == "NeverLowered" }), resource)
	}
	assert.Nil(t, rec.Spec.Seed)

	// A namespace that leaves the selector is let go, and so is every one of a policy that is deleted.
	status()
	base.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": bank}}
	require.NoError(t, e.Update(t.Context(), base))
	e.until("", shop, "deployment-web")
	assert.Equal(t, theBase, e.sizedBy(bank, "deployment-web"))
	require.Eventually(t, func() bool { return status().Namespaces != nil && status().Namespaces.Selected == 1 }, patience, 100*time.Millisecond)
	require.NoError(t, e.Delete(t.Context(), base))
	e.until("", bank, "deployment-web")
}
