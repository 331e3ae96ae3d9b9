package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

func TestKindOf(t *testing.T) {
	cloneSet := schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}
	mapper := meta.NewDefaultRESTMapper(nil)
	// The same mapping that client-go builds from discovery.
	plural, singular := cloneSet.GroupVersion().WithResource("clonesets"), cloneSet.GroupVersion().WithResource("cloneset")
	mapper.AddSpecific(cloneSet.GroupVersion().WithKind("cloneset"), plural, singular, meta.RESTScopeNamespace)
	mapper.AddSpecific(cloneSet, plural, singular, meta.RESTScopeNamespace)
	c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithRESTMapper(mapper).Build()
	for _, written := range []v1alpha1.WorkloadKind{"CloneSet.apps.kruise.io", "cloneset.apps.kruise.io", "clonesets.apps.kruise.io"} {
		kind, sized, err := kindOf(c, written)
		require.NoError(t, err)
		assert.EqualValues(t, "CloneSet.apps.kruise.io", kind)
		assert.Equal(t, workload.Sized{Rollouts: true, Scaled: []schema.GroupVersionKind{cloneSet}}, sized)
		assert.True(t, c.Scheme().Recognizes(cloneSet))
	}
	kind, sized, err := kindOf(c, v1alpha1.KindRollout)
	require.NoError(t, err)
	assert.Equal(t, v1alpha1.KindRollout, kind)
	assert.Equal(t, workload.Sized{Rollouts: true}, sized)
	_, _, err = kindOf(c, "Queue.example.com")
	assert.ErrorAs(t, err, new(notServed))
	assert.EqualError(t, err, "the API server does not have the kind Queue.example.com: write KIND.GROUP of an existing kind, e.g. cloneset.apps.kruise.io")
	assert.False(t, meta.IsNoMatchError(err), "that would be taken for a kind of attune's own")
}

// Kinds with Go types in the plugin are not added as scaled kinds, even if their names are similar.
func TestKindsThatThePluginKnows(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	policy := v1alpha1.GroupVersion.WithKind("AttunePolicy")
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(policy, meta.RESTScopeNamespace)
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).Build()
	_, _, err := kindOf(c, "AttunePolicy.attune.io")
	assert.EqualError(t, err, "AttunePolicy.attune.io is not a kind that attune manages")
}
