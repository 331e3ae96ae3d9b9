package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/cmd/kubectl-attune/vpaimport"
)

// What is made of a VPA is a policy that a real API server accepts, whatever the VPA says.
func TestPoliciesThatAreImportedAreAccepted(t *testing.T) {
	c := newClient(t)
	namespace := newNamespace(t, c)
	for _, spec := range []string{
		`{}`,
		`updatePolicy: {updateMode: "Off"}`,
		`{updatePolicy: {updateMode: InPlaceOrRecreate}, startupBoost: {cpu: {type: Factor, factor: 2, durationSeconds: 3600}}}`,
		`resourcePolicy: {containerPolicies: [{containerName: "*", mode: "Off"}, {containerName: app, minAllowed: {cpu: 0.05, memory: 1e8}, maxAllowed: {cpu: 2, memory: 4Gi}}]}`,
		`resourcePolicy: {containerPolicies: [{containerName: "*", controlledValues: RequestsOnly, minAllowed: {cpu: 0}}]}`,
		`resourcePolicy: {containerPolicies: [{containerName: a, controlledResources: [memory, memory]}, {containerName: b, controlledResources: []}, {containerName: a}, {containerName: ""}]}`,
		`{startupBoost: {cpu: {factor: 500}}, resourcePolicy: {containerPolicies: [{containerName: app, startupBoost: {}}, {containerName: b, startupBoost: {cpu: {factor: 3}}}]}}`,
		`{targetRef: {apiVersion: monitoring.coreos.com/v1, kind: Prometheus, name: main}}`,
	} {
		fields := map[string]any{}
		fields["targetRef"] = map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
		require.NoError(t, yaml.Unmarshal([]byte(spec), &fields))
		vpa := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "web", "namespace": namespace}, "spec": fields}}
		made, notes := vpaimport.Import(vpa)
		require.NotNil(t, made, notes)
		text, err := json.Marshal(made)
		require.NoError(t, err)
		policy := &unstructured.Unstructured{}
		require.NoError(t, json.Unmarshal(text, &policy.Object))
		require.NoError(t, c.Create(t.Context(), policy, client.DryRunAll), string(text))
	}
}

// So are the policies of manifests as they are in public repositories.
func TestPoliciesOfPublicManifestsAreAccepted(t *testing.T) {
	c := newClient(t)
	namespace := newNamespace(t, c)
	files, err := filepath.Glob("../../cmd/kubectl-attune/vpaimport/testdata/public/*.yaml")
	require.NoError(t, err)
	var accepted int
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		vpas, _, err := input.ParseVPAs(text)
		require.NoError(t, err)
		for i := range vpas {
			vpas[i].SetNamespace(namespace)
			made, _ := vpaimport.Import(&vpas[i])
			if made == nil {
				continue // a target that attune does not size
			}
			text, err := json.Marshal(made)
			require.NoError(t, err)
			policy := &unstructured.Unstructured{}
			require.NoError(t, json.Unmarshal(text, &policy.Object))
			require.NoError(t, c.Create(t.Context(), policy, client.DryRunAll), file)
			accepted++
		}
	}
	require.Greater(t, accepted, 13)
}
