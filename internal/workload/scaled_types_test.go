package workload_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"attune.io/attune/internal/workload"
)

var (
	cloneSetKind = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}
	databaseKind = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Database"}
)

const scaledLists = `{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSetList", "items": [
	{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "a", "labels": {"x": "y"}},
	 "spec": {"replicas": 4, "template": {"spec": {"containers": [{"name": "app"}]}}},
	 "status": {"observedGeneration": 1, "replicas": 4, "updatedReplicas": 4}},
	{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "b"}, "spec": 7, "status": 7}]}`

// Clients decode into a Go type and then set its kind to empty.
func TestOneTypeOfSeveralKinds(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, kind := range []schema.GroupVersionKind{cloneSetKind, databaseKind, cloneSetKind} {
		workload.AddScaledToScheme(scheme, kind)
	}
	decoder := serializer.NewCodecFactory(scheme).WithoutConversion().DecoderToVersion(serializer.NewCodecFactory(scheme).UniversalDeserializer(), nil)
	list, _, err := decoder.Decode([]byte(scaledLists), nil, workload.NewScaledList(cloneSetKind))
	require.NoError(t, err, "one object that cannot be read is no trouble of the list")
	items := list.(*workload.ScaledList).Items
	require.Len(t, items, 2)
	assert.Equal(t, cloneSetKind, items[0].GetObjectKind().GroupVersionKind())
	assert.Equal(t, "app", items[0].Spec.Template.Spec.Containers[0].Name)
	assert.NotEmpty(t, items[1].Spec.Unreadable)
	one, _, err := decoder.Decode([]byte(`{"apiVersion": "example.org/v1", "kind": "Database", "metadata": {"name": "a"}}`), nil, workload.NewScaled(databaseKind))
	require.NoError(t, err)
	assert.Equal(t, databaseKind, one.GetObjectKind().GroupVersionKind())
}

// Caches return copies, so a copy must share nothing.
func TestACopyIsItsOwn(t *testing.T) {
	of := &workload.ScaledList{}
	require.NoError(t, json.Unmarshal([]byte(scaledLists), of))
	copied := of.DeepCopyObject().(*workload.ScaledList)
	require.Equal(t, of, copied)
	one := &copied.Items[0]
	one.Labels["x"], *one.Spec.Replicas, one.Spec.Template.Spec.Containers[0].Name = "z", 9, "other"
	*one.Status.ObservedGeneration, *one.Status.Replicas, *one.Status.UpdatedReplicas = 9, 9, 9
	again := &workload.ScaledList{}
	require.NoError(t, json.Unmarshal([]byte(scaledLists), again))
	assert.Equal(t, again, of)
}
