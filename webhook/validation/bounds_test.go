package validation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// The limits are those in the CRDs: no object that the API server accepts is rejected for its length.
func TestBoundsAreThoseOfTheSchema(t *testing.T) {
	found := map[string]int{}
	longest := 0
	var look func(name string, schema map[string]any)
	look = func(name string, schema map[string]any) {
		for _, key := range []string{"maxItems", "maxProperties"} {
			if most, is := schema[key].(float64); is {
				assert.Contains(t, []int{0, int(most)}, found[name], name)
				found[name] = int(most)
			}
		}
		if most, is := schema["maxLength"].(float64); is {
			longest = max(longest, int(most))
		}
		if fields, is := schema["properties"].(map[string]any); is {
			for field, of := range fields {
				look(field, of.(map[string]any))
			}
		}
		for _, key := range []string{"items", "additionalProperties"} {
			if of, is := schema[key].(map[string]any); is {
				look(name, of)
			}
		}
	}
	for _, kind := range []string{"attunepolicies", "attuneclusterpolicies", "attunedefaults", "attunenamespacedefaults"} {
		file, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "attune.io_"+kind+".yaml"))
		require.NoError(t, err)
		var crd struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema struct {
							Properties map[string]map[string]any
						}
					}
				}
			}
		}
		require.NoError(t, yaml.Unmarshal(file, &crd))
		require.NotEmpty(t, crd.Spec.Versions)
		for _, version := range crd.Spec.Versions {
			look("spec", version.Schema.OpenAPIV3Schema.Properties["spec"])
		}
	}
	assert.Equal(t, found, mostEntries)
	assert.Equal(t, longest, mostText)
}
