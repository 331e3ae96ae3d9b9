package workload_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// cloneSetOf decodes a CloneSet like a client. Its generation is 3.
func cloneSetOf(t *testing.T, spec, status string) workload.Workload {
	t.Helper()
	o := &workload.ScaledObject{}
	text := `{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"namespace": "shop", "name": "api", "generation": 3}, "spec": ` + spec + `, "status": ` + status + `}`
	require.NoError(t, json.Unmarshal([]byte(text), o))
	w, ok := workload.From(o)
	require.True(t, ok)
	return w
}

func TestAKindThatIsAddedHasItsTemplate(t *testing.T) {
	w := cloneSetOf(t, argoTemplate, `{}`)
	assert.Equal(t, workload.Identity{Kind: "CloneSet.apps.kruise.io", Namespace: "shop", Name: "api"}, w.Identity)
	assert.Equal(t, "cloneset.apps.kruise.io-api", w.RecommendationName())
	assert.EqualValues(t, 4, w.Replicas)
	assert.Equal(t, "1", w.Template.Spec.Containers[0].Resources.Requests.Cpu().String())
	_, skipped := w.Skipped()
	assert.False(t, skipped)
	assert.False(t, w.Part())
	unknown := strings.Replace(argoTemplate, `"replicas": 4`, `"size": 4`, 1)
	assert.EqualValues(t, 1, cloneSetOf(t, unknown, `{}`).Replicas, "a pod that may be the only one")
	_, ok := workload.From(&workload.ScaledObject{})
	assert.False(t, ok, "nothing says of which kind it is")
}

// The CRD may accept anything, and one such object must not block the others.
func TestAKindThatIsAddedWithoutATemplate(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"a size that is none":     {strings.Replace(argoTemplate, "1Gi", "a lot", 1), ""},
		"an amount of a megabyte": {strings.Replace(argoTemplate, "1Gi", strings.Repeat("9", 1<<20), 1), "an amount has 1048576 characters: use at most 64"},
		"an exponent":             {strings.Replace(argoTemplate, "1Gi", "1e999999999", 1), "the exponent of the amount 1e999999999 is too large: use at most two digits"},
		"another type":            {`{"replicas": "four"}`, ""},
		"a spec of another type":  {`"four"`, ""},
		"none":                    {`{"instances": 3}`, "it has no spec.template"},
		"null":                    {`null`, "it has no spec.template"},
		"fields in another case":  {strings.Replace(argoTemplate, `"template"`, `"Template"`, 1), "it has no spec.template"},
		"a machine's":             {`{"template": {"spec": {"domain": {"cpu": {"cores": 2}}}}}`, "its spec.template has no containers"},
	} {
		t.Run(name, func(t *testing.T) {
			w := cloneSetOf(t, c.spec, `{"observedGeneration": "x"}`)
			assert.Nil(t, w.Template)
			where, skipped := w.Skipped()
			assert.True(t, skipped)
			assert.Contains(t, where, "CloneSet.apps.kruise.io/api, whose pod template cannot be read: "+c.want)
			assert.Less(t, len(where), 400)
		})
	}
	o := workload.NewScaled(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Database"})
	w, ok := workload.From(o)
	require.True(t, ok)
	assert.Equal(t, "it has no spec", w.Unreadable)
}

func TestTheProgressOfAKindThatIsAdded(t *testing.T) {
	for name, c := range map[string]struct{ status, want string }{
		"done":                     {`{"observedGeneration": 3, "replicas": 4, "updatedReplicas": 4}`, ""},
		"progresses":               {`{"observedGeneration": 3, "replicas": 4, "updatedReplicas": 1}`, "1 of 4 pods run the newest template"},
		"not yet seen":             {`{"observedGeneration": 2, "replicas": 4, "updatedReplicas": 4}`, "its controller has not observed generation 3 yet"},
		"the same revision":        {`{"observedGeneration": 3, "replicas": 4, "updatedReplicas": 3, "currentRevision": "a", "updateRevision": "a"}`, ""},
		"another revision":         {`{"observedGeneration": 3, "replicas": 4, "updatedReplicas": 3, "currentRevision": "a", "updateRevision": "b"}`, "3 of 4 pods run the newest template"},
		"nothing":                  {`{}`, "its status has no observedGeneration, so a rollout may be in progress"},
		"no generation":            {`{"replicas": 4, "updatedReplicas": 4}`, "its status has no observedGeneration, so a rollout may be in progress"},
		"no counts":                {`{"observedGeneration": 3, "readyReplicas": 4}`, "its status has no updatedReplicas, so a rollout may be in progress"},
		"revisions of another use": {`{"observedGeneration": 3, "currentRevision": "", "updateRevision": ""}`, "its status has no updatedReplicas, so a rollout may be in progress"},
		"a status of another type": {`{"observedGeneration": {}}`, "its status has no observedGeneration, so a rollout may be in progress"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, workload.Rollout{InProgress: c.want != "", Reason: c.want}, cloneSetOf(t, argoTemplate, c.status).Rollout)
		})
	}
}

func TestSizedKinds(t *testing.T) {
	cloneSet := schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}
	none, all := workload.Sized{}, workload.Sized{Rollouts: true, Scaled: []schema.GroupVersionKind{cloneSet}}
	assert.NotContains(t, none.Kinds(), v1alpha1.KindRollout)
	assert.Equal(t, append(workload.Kinds[:len(workload.Kinds):len(workload.Kinds)], "CloneSet.apps.kruise.io"), all.Kinds())
	for _, kind := range all.Kinds() {
		assert.True(t, all.Has(kind))
		read, ok := workload.From(all.NewObject(kind))
		require.True(t, ok)
		assert.Equal(t, kind, read.Kind)
		of, ok := workload.KindOf(workload.GroupKindOf(kind))
		assert.True(t, ok)
		assert.Equal(t, kind, of)
		assert.NotNil(t, all.NewList(kind))
	}
	assert.False(t, none.Has("CloneSet.apps.kruise.io"))
	assert.False(t, none.Has(v1alpha1.KindRollout))
	assert.Nil(t, none.NewObject("CloneSet.apps.kruise.io"))
	assert.Equal(t, cloneSet, all.NewObject("CloneSet.apps.kruise.io").GetObjectKind().GroupVersionKind())
	for _, kind := range []v1alpha1.WorkloadKind{"", "Pod", "Deployment", "Deployment.apps", "Rollout.argoproj.io", "A.b.C", "*.b.c", "A.b..c", "A.b.c\n"} {
		assert.False(t, workload.IsScaled(kind), kind)
	}
}
