package integration

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/cluster"
)

// helmBinary is the test cluster's own, or the one that ATTUNE_HELM names.
func helmBinary(t testing.TB) string {
	t.Helper()
	if binary := os.Getenv("ATTUNE_HELM"); binary != "" {
		return binary
	}
	tools, err := cluster.Build(t.Context(), cluster.Options{Progress: os.Stderr})
	require.NoError(t, err)
	binary, err := tools.Find("helm")
	require.NoError(t, err)
	return binary
}

// rendered are objects of some kinds as the chart has them, hooks among them.
func rendered(t *testing.T, kinds ...string) []*unstructured.Unstructured {
	t.Helper()
	return renderedWith(t, "certs.provider=self-signed", kinds...)
}

// renderedWith are those with values as --set has them.
func renderedWith(t testing.TB, values string, kinds ...string) []*unstructured.Unstructured {
	t.Helper()
	project, err := cluster.ProjectDir()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), helmBinary(t), "template", "attune", filepath.Join(project, "charts", "attune"),
		"--namespace", "attune-system", "--set", values)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.Output()
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		require.NoError(t, err, string(exit.Stderr))
	}
	require.NoError(t, err)
	var found []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(string(out))))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		u := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(document, &u.Object))
		if slices.Contains(kinds, u.GetKind()) {
			found = append(found, u)
		}
	}
}

// install creates objects for the rest of the test.
func install(t *testing.T, c client.Client, objects ...*unstructured.Unstructured) {
	t.Helper()
	t.Cleanup(func() { anybodyWrites(t, c) })
	for _, o := range objects {
		require.NoError(t, c.Create(t.Context(), o), o.GetName())
		t.Cleanup(func() { assert.NoError(t, client.IgnoreNotFound(c.Delete(context.Background(), o))) })
	}
}

// anybodyWrites recommendations again: the API server goes on with a rule for a while after it is deleted, and the next
// test is not to meet it.
func anybodyWrites(t *testing.T, c client.Client) {
	t.Helper()
	probe := &v1alpha1.AttuneRecommendation{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "probe-"},
		Spec:       v1alpha1.AttuneRecommendationSpec{Mode: "Auto", Workload: v1alpha1.WorkloadRef{Kind: "Deployment", Name: "web"}},
	}
	assert.Eventually(t, func() bool {
		return c.Create(context.Background(), probe.DeepCopy(), client.DryRunAll) == nil
	}, patience, 20*time.Millisecond, "the rule about recommendations is deleted, and in force")
}

// as is a client of somebody else.
func as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(server)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	c, err := client.New(config, client.Options{Scheme: newScheme(t)})
	require.NoError(t, err)
	return c
}
