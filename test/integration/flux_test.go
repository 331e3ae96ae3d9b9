package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// inGit is the Deployment of pluginWorld as it is in Git.
const inGit = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {tier: api}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: none, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
`

// fluxReconciles does what Flux's kustomize-controller does with an object before and while it applies it: the fields
// of managers whose name begins with "kubectl" become its own (github.com/fluxcd/pkg/ssa v0.84.0, patch.go:
// PatchReplaceFieldsManagers, matchFieldManager), and what is not in Git then goes. The module itself brings
// kustomize and needs a newer Go.
func fluxReconciles(t *testing.T, c client.Client, namespace string) {
	t.Helper()
	const manager = "kustomize-controller"
	live := &appsv1.Deployment{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, live))
	own, others := metav1.ManagedFieldsEntry{}, []metav1.ManagedFieldsEntry{}
	set := fieldpath.NewSet()
	for _, entry := range live.ManagedFields {
		applied := entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
		if applied {
			own = entry
		}
		if !applied && !(strings.HasPrefix(entry.Manager, "kubectl") && entry.Subresource == "") {
			others = append(others, entry)
			continue
		}
		fields := &fieldpath.Set{}
		require.NoError(t, fields.FromJSON(strings.NewReader(entry.FieldsV1.GetRawString())))
		set = set.Union(fields)
	}
	if own.Manager != "" {
		raw, err := set.ToJSON()
		require.NoError(t, err)
		own.FieldsV1 = metav1.NewFieldsV1(string(raw))
		patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/metadata/managedFields", "value": append(others, own)}})
		require.NoError(t, err)
		require.NoError(t, c.Patch(t.Context(), live, client.RawPatch(types.JSONPatchType, patch)))
	}
	git := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(inGit), &git.Object))
	git.SetNamespace(namespace)
	require.NoError(t, c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(git), client.FieldOwner(manager), client.ForceOwnership))
}

// Annotations that the plugin writes survive Flux. Argo CD and other controllers that apply on the server's side leave
// the fields of other managers alone.
func TestFluxKeepsAnnotationsOfThePlugin(t *testing.T) {
	c := newClient(t)
	p := newPluginWorld(t, c)
	fluxReconciles(t, c, p.namespace)
	annotations := func() map[string]string {
		web := &appsv1.Deployment{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: p.namespace, Name: "web"}, web))
		return web.Annotations
	}
	for verb, key := range map[string]string{"pause": v1alpha1.PausedAnnotation, "undo": v1alpha1.UndoAnnotation} {
		_, errOut, code := p.run(verb, "deployment/web")
		require.Zero(t, code, errOut)
		require.Contains(t, annotations(), key)
		fluxReconciles(t, c, p.namespace)
		assert.Contains(t, annotations(), key, verb)
	}
	rec := &v1alpha1.AttuneRecommendation{}
	key := client.ObjectKey{Namespace: p.namespace, Name: workload.RecommendationName(v1alpha1.KindDeployment, "web")}
	require.NoError(t, c.Get(t.Context(), key, rec))
	rec.Status.Paused = &v1alpha1.PausedState{Since: metav1.Now(), Reason: "twice"}
	require.NoError(t, c.Status().Update(t.Context(), rec))
	_, errOut, code := p.run("resume", "deployment/web")
	require.Zero(t, code, errOut)
	fluxReconciles(t, c, p.namespace)
	assert.Contains(t, annotations(), v1alpha1.ResumedAnnotation)
	assert.NotContains(t, annotations(), v1alpha1.PausedAnnotation)
}
