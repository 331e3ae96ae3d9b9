package scaled_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"attune.io/attune/internal/scaled"
)

var (
	cloneSet = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}
	database = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Database"}
)

const lists = `{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSetList", "items": [
	{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "a", "labels": {"x": "y"}},
	 "spec": {"replicas": 4, "template": {"spec": {"containers": [{"name": "app"}]}}},
	 "status": {"observedGeneration": 1, "replicas": 4, "updatedReplicas": 4}},
	{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "b"}, "spec": 7, "status": 7}]}`

// TestOneTypeOfSeveralKinds: clients decode into a Go type and take the kind off what they decoded.
func TestOneTypeOfSeveralKinds(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, kind := range []schema.GroupVersionKind{cloneSet, database, cloneSet} {
		scaled.AddToScheme(scheme, kind)
	}
	decoder := serializer.NewCodecFactory(scheme).WithoutConversion().DecoderToVersion(serializer.NewCodecFactory(scheme).UniversalDeserializer(), nil)
	list, _, err := decoder.Decode([]byte(lists), nil, scaled.NewList(cloneSet))
	require.NoError(t, err, "one object that cannot be read is no trouble of the list")
	items := list.(*scaled.List).Items
	require.Len(t, items, 2)
	assert.Equal(t, cloneSet, items[0].GetObjectKind().GroupVersionKind())
	assert.Equal(t, "app", items[0].Spec.Template.Spec.Containers[0].Name)
	assert.NotEmpty(t, items[1].Spec.Unreadable)
	one, _, err := decoder.Decode([]byte(`{"apiVersion": "example.org/v1", "kind": "Database", "metadata": {"name": "a"}}`), nil, scaled.New(database))
	require.NoError(t, err)
	assert.Equal(t, database, one.GetObjectKind().GroupVersionKind())
}

// TestACopyIsItsOwn: caches hand out copies.
func TestACopyIsItsOwn(t *testing.T) {
	of := &scaled.List{}
	require.NoError(t, json.Unmarshal([]byte(lists), of))
	copied := of.DeepCopyObject().(*scaled.List)
	require.Equal(t, of, copied)
	one := &copied.Items[0]
	one.Labels["x"], *one.Spec.Replicas, one.Spec.Template.Spec.Containers[0].Name = "z", 9, "other"
	*one.Status.ObservedGeneration, *one.Status.Replicas, *one.Status.UpdatedReplicas = 9, 9, 9
	again := &scaled.List{}
	require.NoError(t, json.Unmarshal([]byte(lists), again))
	assert.Equal(t, again, of)
}
