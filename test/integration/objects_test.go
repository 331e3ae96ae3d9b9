package integration

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

func newScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	require.NoError(t, workload.AddArgoToScheme(scheme))
	return scheme
}

func newClient(t testing.TB) client.Client {
	t.Helper()
	c, err := client.New(server, client.Options{Scheme: newScheme(t), FieldValidation: metav1.FieldValidationStrict})
	require.NoError(t, err)
	return c
}

// newNamespace is one that no other test has.
func newNamespace(t testing.TB, c client.Client) string {
	t.Helper()
	ns := &unstructured.Unstructured{}
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	ns.SetGenerateName("integration-")
	require.NoError(t, c.Create(t.Context(), ns))
	return ns.GetName()
}

// object is one of attune's kinds with a spec as a user writes it, which no Go type has touched.
func object(t *testing.T, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	fields := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(spec), &fields), spec)
	u := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	u.SetAPIVersion(v1alpha1.GroupVersion.String())
	u.SetKind(kind)
	u.SetName(v1alpha1.DefaultsName)
	if kind != "AttuneDefaults" && kind != "AttuneClusterPolicy" {
		u.SetNamespace("default")
	}
	return u
}

// policyWith is an AttunePolicy whose targetRef is fine.
func policyWith(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	u := object(t, "AttunePolicy", spec)
	if _, set, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "targetRef"); !set {
		require.NoError(t, unstructured.SetNestedField(u.Object, "Deployment", "spec", "targetRef", "kind"))
	}
	return u
}

// causes are the reasons why the API server refused an object.
func causes(t *testing.T, err error) []metav1.StatusCause {
	t.Helper()
	var status apierrors.APIStatus
	require.True(t, errors.As(err, &status), "%v", err)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	return status.Status().Details.Causes
}

// assertOneCause wants one field to be named, with one sentence after the value that was refused.
func assertOneCause(t *testing.T, err error, field, sentence, about string) {
	t.Helper()
	if !assert.Error(t, err, about) {
		return
	}
	all := causes(t, err)
	if assert.Len(t, all, 1, about) {
		assert.Equal(t, field, all[0].Field, about)
		assert.True(t, strings.HasSuffix(all[0].Message, ": "+sentence), "%s: %s", about, all[0].Message)
	}
}
