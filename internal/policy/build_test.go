package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
)

// clusterDefaults, namespaceDefaults and aPolicy decode a spec from YAML; an empty spec is a level that does not exist.
func clusterDefaults(t testing.TB, spec string) *v1alpha1.AttuneDefaults {
	t.Helper()
	if spec == "" {
		return nil
	}
	d := &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}}
	read(t, spec, &d.Spec)
	return d
}

func namespaceDefaults(t testing.TB, spec string) *v1alpha1.AttuneNamespaceDefaults {
	t.Helper()
	if spec == "" {
		return nil
	}
	d := &v1alpha1.AttuneNamespaceDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName, Namespace: "shop"}}
	read(t, spec, &d.Spec)
	return d
}

func aPolicy(t testing.TB, spec string) *v1alpha1.AttunePolicy {
	t.Helper()
	if spec == "" {
		return nil
	}
	p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Name: "api", Namespace: "shop"}}
	p.Spec.TargetRef.Kind = v1alpha1.KindDeployment
	read(t, spec, &p.Spec)
	return p
}

func read(t testing.TB, text string, into any) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "\t", "  ")), into), text)
}
