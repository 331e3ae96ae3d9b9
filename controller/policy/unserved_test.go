package policy

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

const added = "; the operator does not size this kind. Add it to the chart's value scaledKinds as RESOURCE.VERSION.GROUP"

var cloneSets = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}

func TestKindsThatAreNotSized(t *testing.T) {
	left := []workload.Left{
		{Resource: "clonesets.v1.apps.kruise.io", Group: "apps.kruise.io", Why: "the API server does not serve it"}, {Resource: "queues.v1.example.org", Group: "example.org", Why: "it has no subresource /scale"},
	}
	sizes := workload.Sized{Scaled: []schema.GroupVersionKind{cloneSets}}
	for _, c := range []struct {
		sized workload.Sized
		kind  v1alpha1.WorkloadKind
		want  string
	}{
		{workload.Sized{}, "", ""},
		{workload.Sized{}, "Deployment", ""},
		{workload.Sized{Rollouts: true}, "Rollout", ""},
		{sizes, "CloneSet.apps.kruise.io", ""},
		{workload.Sized{}, "Rollout", "; the API server does not serve Rollout.argoproj.io: install its CustomResourceDefinition. The operator checks again every few minutes"},
		{workload.Sized{}, "CloneSet.apps.kruise.io", added},
		{sizes, "cloneset.apps.kruise.io", added + "; scaledKinds has CloneSet.apps.kruise.io"},
		{workload.Sized{Left: left}, "CloneSet.apps.kruise.io", added + "; clonesets.v1.apps.kruise.io of scaledKinds is not sized: the API server does not serve it"},
	} {
		assert.Equal(t, c.want, notSized(c.sized, c.kind))
	}
}

// TestRemovedKind: its workloads are released, and their policy reports why.
func TestRemovedKind(t *testing.T) {
	f := newFleet(t, 0)
	p := f.policy()
	p.Spec.TargetRef.Kind = "CloneSet.apps.kruise.io"
	f.memory.put(p)
	web := &workload.ScaledObject{}
	require.NoError(t, json.Unmarshal([]byte(`{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"namespace": "shop", "name": "web", "uid": "web"},
		"spec": {"template": {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}}}]}}}}`), web))
	f.memory.put(web)
	ready := func() string {
		return meta.FindStatusCondition(f.policy().Status.Conditions, v1alpha1.ConditionReady).Message
	}

	f.Sized.Scaled = []schema.GroupVersionKind{cloneSets}
	f.pass(t)
	require.Len(t, f.memory.recommendations("shop"), 1)
	rec := f.memory.recommendations("shop")[0]
	assert.Equal(t, "cloneset.apps.kruise.io-web", rec.Name)
	assert.False(t, released(rec.Spec))
	assert.NotContains(t, ready(), "scaledKinds")

	f.Sized.Scaled = nil
	f.pass(t)
	assert.True(t, released(f.memory.recommendations("shop")[0].Spec))
	assert.Equal(t, "no CloneSet.apps.kruise.io matches targetRef"+added, ready())
}

// TestAClusterPolicyOfAKindThatIsNotSized reports that for the whole policy.
func TestAClusterPolicyOfAKindThatIsNotSized(t *testing.T) {
	r := newRealm(t, "shop")
	r.change(func(p *v1alpha1.AttuneClusterPolicy) {
		p.Spec.TargetRef = &v1alpha1.ClusterTargetRef{Kind: "CloneSet.apps.kruise.io"}
	})
	r.all()
	assert.Contains(t, meta.FindStatusCondition(r.policy().Status.Conditions, v1alpha1.ConditionReady).Message, "or other policies take precedence"+added)
}
