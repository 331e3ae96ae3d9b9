package laws

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// field is one field of a CRD.
type field struct {
	// path from the object, such as spec.cpu.percentile. [] stands for the elements of a list, {} for the values of a map.
	path     string
	schema   apiextensionsv1.JSONSchemaProps
	required bool
}

// fields calls a function with each field of each CRD below spec and status, in the order of their paths.
func fields(t *testing.T, of func(kind string, f field)) {
	t.Helper()
	files, err := filepath.Glob("../../config/crd/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 5)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var crd apiextensionsv1.CustomResourceDefinition
		require.NoError(t, yaml.Unmarshal(text, &crd))
		require.Len(t, crd.Spec.Versions, 1)
		all := *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		for _, half := range []string{"spec", "status"} {
			if s, has := all.Properties[half]; has {
				below(field{half, s, false}, func(f field) { of(crd.Spec.Names.Kind, f) })
			}
		}
	}
}

// below calls a function with the fields below one.
func below(f field, of func(field)) {
	s := f.schema
	switch {
	case s.Items != nil:
		below(field{f.path + "[]", *s.Items.Schema, false}, of)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		below(field{f.path + "{}", *s.AdditionalProperties.Schema, false}, of)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		next := field{f.path + "." + name, s.Properties[name], slices.Contains(s.Required, name)}
		of(next)
		below(next, of)
	}
}

// ofKubernetes are fields of Kubernetes' own types, with Kubernetes' own descriptions.
var ofKubernetes = regexp.MustCompile(`(?i)selector\.match(Labels|Expressions)`)

// incomplete are fields whose descriptions may lack something, with the reason.
var incomplete = map[string]string{}

var (
	hasExample = regexp.MustCompile(`e\.g\. |Example: `)
	hasDefault = regexp.MustCompile(`(Built-in default|Default): `)
)

// lacks returns what the description of a field lacks:
//   - Each field has a description.
//   - A field that users set and may leave out has its default: the built-in value, or what applies if it is not set. A
//     section, whose fields may all be left out, has none: each of its fields has one.
//   - A field that users set and that has no fields of its own has an example. In place of one, the description of an enum
//     may name all of its values, and a boolean has only two.
func lacks(kind string, f field) (missing []string) {
	d, s := strings.Join(strings.Fields(f.schema.Description), " "), f.schema
	if d == "" {
		return []string{"a description"}
	}
	if kind == "AttuneRecommendation" || !strings.HasPrefix(f.path, "spec.") || incomplete[f.path] != "" || ofKubernetes.MatchString(f.path) {
		return nil
	}
	section := len(s.Properties) > 0 && len(s.Required) == 0
	if !f.required && !section && !hasDefault.MatchString(d) {
		missing = append(missing, "its default (Built-in default: …, or Default: …)")
	}
	named := len(s.Enum) > 0
	for _, value := range s.Enum {
		var name string
		named = json.Unmarshal(value.Raw, &name) == nil && strings.Contains(d, name) && named
	}
	if len(s.Properties) == 0 && !named && s.Type != "boolean" && !hasExample.MatchString(d) {
		missing = append(missing, "an example (e.g. …)")
	}
	return missing
}

// TestFieldsAreDescribed: kubectl explain answers what a field does, how it is written, and what holds without it.
func TestFieldsAreDescribed(t *testing.T) {
	visited := 0
	fields(t, func(kind string, f field) {
		visited++
		if missing := lacks(kind, f); len(missing) > 0 {
			assert.Fail(t, kind+" "+f.path+" lacks "+strings.Join(missing, " and "), "%s", f.schema.Description)
		}
	})
	assert.Greater(t, visited, 500)
}
