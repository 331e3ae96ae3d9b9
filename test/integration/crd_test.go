package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// crds are the generated files.
func crds(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "config", "crd", "*.yaml"))
	require.NoError(t, err)
	all := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.UnmarshalStrict(data, crd), file)
		all[crd.Spec.Names.Kind] = crd
	}
	require.Len(t, all, 5, "one CRD for each kind")
	return all
}

// schemas calls visit for every schema of a CRD, with its path.
func schemas(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, visit func(path string, s map[string]any)) {
	t.Helper()
	require.Len(t, crd.Spec.Versions, 1)
	data, err := json.Marshal(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	require.NoError(t, err)
	var root map[string]any
	require.NoError(t, json.Unmarshal(data, &root))
	walk("", root, visit)
}

func walk(path string, s map[string]any, visit func(string, map[string]any)) {
	visit(path, s)
	if properties, ok := s["properties"].(map[string]any); ok {
		for name, child := range properties {
			walk(path+"."+name, child.(map[string]any), visit)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if child, ok := s[key].(map[string]any); ok {
			walk(path+"[]", child, visit)
		}
	}
}

// TestNames: what users type.
func TestNames(t *testing.T) {
	d, err := discovery.NewDiscoveryClientForConfig(server)
	require.NoError(t, err)
	list, err := d.ServerResourcesForGroupVersion("attune.io/v1alpha1")
	require.NoError(t, err)
	served := map[string]metav1.APIResource{}
	for _, r := range list.APIResources {
		served[r.Name] = r
	}
	for plural, want := range map[string]struct {
		kind, singular, short string
		namespaced, status    bool
	}{
		"attunepolicies":          {"AttunePolicy", "attunepolicy", "ap", true, true},
		"attuneclusterpolicies":   {"AttuneClusterPolicy", "attuneclusterpolicy", "acp", false, true},
		"attunedefaults":          {"AttuneDefaults", "attunedefaults", "ad", false, false},
		"attunenamespacedefaults": {"AttuneNamespaceDefaults", "attunenamespacedefaults", "andf", true, false},
		"attunerecommendations":   {"AttuneRecommendation", "attunerecommendation", "ar", true, true},
	} {
		r, ok := served[plural]
		require.True(t, ok, plural)
		assert.Equal(t, want.kind, r.Kind)
		assert.Equal(t, want.singular, r.SingularName)
		assert.Equal(t, []string{want.short}, r.ShortNames)
		assert.Equal(t, []string{"attune"}, r.Categories)
		assert.Equal(t, want.namespaced, r.Namespaced)
		_, hasStatus := served[plural+"/status"]
		assert.Equal(t, want.status, hasStatus, plural)
	}
}

// TestStructural: the API server took the schemas as they are and prunes by them.
func TestStructural(t *testing.T) {
	c, err := client.New(server, client.Options{Scheme: crdScheme(t)})
	require.NoError(t, err)
	for kind, crd := range crds(t) {
		installed := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(crd), installed))
		conditions := map[apiextensionsv1.CustomResourceDefinitionConditionType]apiextensionsv1.ConditionStatus{}
		for _, condition := range installed.Status.Conditions {
			conditions[condition.Type] = condition.Status
		}
		assert.Equal(t, apiextensionsv1.ConditionTrue, conditions[apiextensionsv1.Established], kind)
		assert.Equal(t, apiextensionsv1.ConditionTrue, conditions[apiextensionsv1.NamesAccepted], kind)
		assert.NotContains(t, conditions, apiextensionsv1.NonStructuralSchema, kind)
		assert.False(t, installed.Spec.PreserveUnknownFields, kind)
		schemas(t, installed, func(path string, s map[string]any) {
			if strings.HasSuffix(path, ".cpu.limits") { // a word or an object: the webhook checks it
				return
			}
			assert.NotContains(t, s, "x-kubernetes-preserve-unknown-fields", kind+path)
		})
	}
}

// TestNoDefaults: a default that the API server stores could never be overridden by a lower level again.
func TestNoDefaults(t *testing.T) {
	for kind, crd := range crds(t) {
		visited := 0
		schemas(t, crd, func(path string, s map[string]any) {
			visited++
			assert.NotContains(t, s, "default", kind+path)
		})
		assert.Greater(t, visited, 20, kind)
	}
}

// TestSettingsAreOptional: every field of the shared settings may be left out on its own.
func TestSettingsAreOptional(t *testing.T) {
	allowed := map[string]bool{ // halves of a pair, elements of a list and the target itself mean nothing without
		".spec.targetRef": true, ".spec.cpu.startupBoost": true, ".spec.containerPolicies[].cpu.startupBoost": true,
		".spec.metricsSource.prometheus.basicAuth": true, ".spec.metricsSource.prometheus.basicAuth.passwordSecret": true,
		".spec.metricsSource.prometheus.bearerTokenSecret": true, ".spec.metricsSource.prometheus.tls.caSecret": true,
		".spec.sloGuardrails[]": true, ".spec.containerPolicies[]": true, ".spec.updateStrategy.schedule.windows[]": true, ".spec.targetRef.selector.matchExpressions[]": true,
		".spec.namespaceSelector.matchExpressions[]": true,
	}
	for _, kind := range []string{"AttunePolicy", "AttuneClusterPolicy", "AttuneDefaults", "AttuneNamespaceDefaults"} {
		schemas(t, crds(t)[kind], func(path string, s map[string]any) {
			if required, ok := s["required"].([]any); ok && len(path) > 5 && path[:5] == ".spec" && path != ".spec" {
				assert.True(t, allowed[path], "%s%s requires %v", kind, path, required)
			}
		})
	}
}

// TestEveryFieldIsExplained: kubectl explain has an answer for every field.
func TestEveryFieldIsExplained(t *testing.T) {
	for kind, crd := range crds(t) {
		schemas(t, crd, func(path string, s map[string]any) {
			if strings.Count(path, ".") > 1 && !strings.HasSuffix(path, "[]") {
				assert.NotEmpty(t, s["description"], kind+path)
			}
		})
	}
}
