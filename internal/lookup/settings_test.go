package lookup

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

func reader(t *testing.T, objects ...client.Object) Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return Reader{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), Clusterwide: true, Operator: policy.Operator{Namespace: "attune-system"}}
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// clusterPolicy selects namespaces with the label team: name.
func clusterPolicy(name string) *v1alpha1.AttuneClusterPolicy {
	p := &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(1_700_000_000, 0)}}
	p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": name}}
	return p
}

// Policy returns an AttunePolicy, or the instance of a cluster policy: a deleted one if the namespace is not selected.
// It returns NotFound for both kinds.
func TestPolicyByName(t *testing.T) {
	r := reader(t,
		namespace("shop", map[string]string{"team": "web"}), namespace("bank", nil), clusterPolicy("web"),
		&v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}})
	of := func(namespace, name string) (*v1alpha1.AttunePolicy, error) {
		return r.Policy(t.Context(), types.NamespacedName{Namespace: namespace, Name: name})
	}
	own, err := of("shop", "own")
	require.NoError(t, err)
	assert.False(t, policy.OfCluster(own))

	selected, err := of("shop", policy.InstanceName("web"))
	require.NoError(t, err)
	assert.True(t, policy.OfCluster(selected))
	assert.Equal(t, "shop", selected.Namespace)
	assert.True(t, selected.DeletionTimestamp.IsZero())

	for _, elsewhere := range []string{"bank", "gone"} {
		left, err := of(elsewhere, policy.InstanceName("web"))
		require.NoError(t, err)
		assert.False(t, left.DeletionTimestamp.IsZero(), elsewhere)
	}
	for _, unknown := range []string{"other", policy.InstanceName("other")} {
		_, err := of("shop", unknown)
		assert.True(t, apierrors.IsNotFound(err), unknown)
	}

	r.Clusterwide = false
	_, err = of("shop", policy.InstanceName("web"))
	assert.True(t, apierrors.IsNotFound(err), "an operator of some namespaces uses no cluster policy")
}

// One namespace has the instances that select it; all namespaces have each pair once. The operator's namespace and
// kube-system are selected only by name.
func TestInstances(t *testing.T) {
	web := map[string]string{"team": "web"}
	r := reader(t, clusterPolicy("web"), clusterPolicy("data"),
		namespace("shop", web), namespace("store", web), namespace("bank", nil), namespace("kube-system", web), namespace("attune-system", web))
	there, err := r.Instances(t.Context(), "shop")
	require.NoError(t, err)
	require.Len(t, there, 1)
	assert.Equal(t, policy.InstanceName("web"), there[0].Name)
	for _, none := range []string{"bank", "gone", "kube-system", "attune-system"} {
		there, err := r.Instances(t.Context(), none)
		require.NoError(t, err)
		assert.Empty(t, there, none)
	}
	all, err := r.Instances(t.Context(), "")
	require.NoError(t, err)
	var in []string
	for _, p := range all {
		in = append(in, p.Namespace+" "+p.Name)
	}
	assert.ElementsMatch(t, []string{"shop " + policy.InstanceName("web"), "store " + policy.InstanceName("web")}, in)
}

// The namespace's defaults take precedence over the cluster's, the policy over both.
func TestSettingsRestOnDefaults(t *testing.T) {
	mode := func(of v1alpha1.UpdateType) v1alpha1.PolicySettings {
		return v1alpha1.PolicySettings{UpdateStrategy: &v1alpha1.UpdateStrategy{Type: &of}}
	}
	cluster := &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}}
	cluster.Spec.PolicySettings = mode(v1alpha1.UpdateCanary)
	ns := &v1alpha1.AttuneNamespaceDefaults{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: v1alpha1.DefaultsName}}
	ns.Spec.PolicySettings = mode(v1alpha1.UpdateInitial)
	r := reader(t, cluster, ns)
	resolved := func(namespace string, own v1alpha1.UpdateType) v1alpha1.UpdateType {
		p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "own"}}
		p.Spec.TargetRef.Kind = "Deployment"
		if own != "" {
			p.Spec.PolicySettings = mode(own)
		}
		s, err := r.Settings(t.Context(), p)
		require.NoError(t, err)
		return s.Resize.Mode
	}
	assert.Equal(t, v1alpha1.UpdateCanary, resolved("bank", ""))
	assert.Equal(t, v1alpha1.UpdateInitial, resolved("shop", ""))
	assert.Equal(t, v1alpha1.UpdateAuto, resolved("shop", v1alpha1.UpdateAuto))
}

// Unreadable defaults are an error that needs a retry; settings are never resolved without them.
func TestDefaultsThatCannotBeRead(t *testing.T) {
	r := reader(t)
	down := errors.New("the API server is away")
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return down
		},
	})
	_, err := r.Settings(t.Context(), &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}})
	require.ErrorIs(t, err, down)
	assert.Nil(t, Invalid(err))
}
