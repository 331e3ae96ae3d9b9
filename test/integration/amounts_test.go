package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAmountsThatTakeLongToRead are not let in, by the API server alone: every relist of the operator would read them.
func TestAmountsThatTakeLongToRead(t *testing.T) {
	c := newClient(t)
	namespace := newNamespace(t, c)
	try := func(kind string, spec map[string]any) error {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "attune.io/v1alpha1", "kind": kind, "spec": spec}}
		u.SetName("default")
		if kind != "AttuneDefaults" {
			u.SetNamespace(namespace)
		}
		return c.Create(t.Context(), u, client.DryRunAll)
	}
	spec := func(resource, field string, amount any) map[string]any {
		return map[string]any{"paused": true, "targetRef": map[string]any{"kind": "Deployment"}, resource: map[string]any{field: amount}}
	}
	kinds := []string{"AttunePolicy", "AttuneNamespaceDefaults", "AttuneDefaults"}
	for _, kind := range kinds {
		for _, resource := range []string{"cpu", "memory"} {
			for _, field := range []string{"minAllowed", "maxAllowed"} {
				for _, amount := range []string{"1e-9999999", "1e900000000", "1E+100", "0." + strings.Repeat("0", 100) + "1", strings.Repeat("9", 65)} {
					s := spec(resource, field, amount)
					if kind != "AttunePolicy" {
						delete(s, "targetRef")
					}
					began := time.Now()
					assert.ErrorContains(t, try(kind, s), field+" must be a quantity greater than 0", "%s %s.%s: %.20s", kind, resource, field, amount)
					t.Logf("%s %s.%s %.20s: refused after %s", kind, resource, field, amount, time.Since(began))
				}
			}
		}
	}
	for _, amount := range []any{"50m", "1.5", "64Mi", "1e3", "1E-3", "1e+18", int64(2)} {
		require.NoError(t, try("AttunePolicy", spec("memory", "maxAllowed", amount)), "%v", amount)
	}
	// In a list the API server has no budget for the rule above: the pattern refuses them.
	entry := func(resource, field string, amount any) map[string]any {
		return map[string]any{"paused": true, "targetRef": map[string]any{"kind": "Deployment"},
			"containerPolicies": []any{map[string]any{"containerName": "app", resource: map[string]any{field: amount}}}}
	}
	for _, resource := range []string{"cpu", "memory"} {
		for _, field := range []string{"minAllowed", "maxAllowed"} {
			for _, amount := range []string{"1e-9999999", "1e900000000", "1E+100", "1e1.5", "0." + strings.Repeat("0", 100) + "1", strings.Repeat("9", 65)} {
				assert.ErrorContains(t, try("AttunePolicy", entry(resource, field, amount)), "containerPolicies[0]."+resource+"."+field, "%.20s", amount)
			}
		}
	}
	for _, amount := range []any{"50m", "1.5", "64Mi", "1e3", "1E-3", "1e+18", int64(2)} {
		require.NoError(t, try("AttunePolicy", entry("memory", "maxAllowed", amount)), "%v", amount)
	}
	both := spec("cpu", "minAllowed", "1e-9999999")
	both["cpu"].(map[string]any)["maxAllowed"] = "1e-8888888"
	assert.Error(t, try("AttunePolicy", both))
}

// The schema refuses what is wrong with entries of containers: two of one name, an unknown mode or resource, too many.
func TestEntriesOfContainersInTheSchema(t *testing.T) {
	c := newClient(t)
	namespace := newNamespace(t, c)
	many := make([]any, 65)
	for i := range many {
		many[i] = map[string]any{"containerName": fmt.Sprint("c", i)}
	}
	for want, entries := range map[string][]any{
		"":                              {map[string]any{"containerName": "app"}, map[string]any{"containerName": "*", "mode": "Off", "controlledResources": []any{"memory"}}},
		"Duplicate value":               {map[string]any{"containerName": "app"}, map[string]any{"containerName": "app"}},
		`supported values: "Auto"`:      {map[string]any{"containerName": "app", "mode": "Initial"}},
		`supported values: "cpu"`:       {map[string]any{"containerName": "app", "controlledResources": []any{"gpu"}}},
		"controlledResources":           {map[string]any{"containerName": "app", "controlledResources": []any{}}},
		"containerName":                 {map[string]any{"mode": "Off"}},
		"must have at most 64 items":    many,
		"percentile":                    {map[string]any{"containerName": "app", "cpu": map[string]any{"percentile": int64(101)}}},
		"overhead must be a percentage": {map[string]any{"containerName": "app", "cpu": map[string]any{"overhead": "x"}}},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "attune.io/v1alpha1", "kind": "AttunePolicy",
			"spec": map[string]any{"targetRef": map[string]any{"kind": "Deployment"}, "containerPolicies": entries}}}
		u.SetName("default")
		u.SetNamespace(namespace)
		if err := c.Create(t.Context(), u, client.DryRunAll); want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
}
