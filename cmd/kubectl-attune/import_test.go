package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

// newImportTest has the cluster of cluster.yaml and the VPAs of vpas.yaml. Writes are refused.
func newImportTest(t *testing.T) cliTest {
	t.Helper()
	cli := newCLITest(t, interceptor.Funcs{})
	text, err := os.ReadFile(filepath.Join("testdata", "vpas.yaml"))
	require.NoError(t, err)
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		vpa := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(document, &vpa.Object))
		require.NoError(t, cli.client.Create(t.Context(), vpa))
	}
	return cli
}

func TestImportVPA(t *testing.T) {
	for name, args := range map[string][]string{
		"import-all.yaml":   {"-A"},
		"import.yaml":       nil,
		"import-named.json": {"web", "-o", "json"},
		"import-label.yaml": {"-l", "team=web", "-o", "yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			got := newImportTest(t).run(append([]string{"import", "vpa"}, args...)...)
			assert.Equal(t, exitOK, got.code, got.errOut)
			golden(t, name, got.out)
			golden(t, name+".stderr", got.errOut)
		})
	}
}

// A VPA whose policy only recommends is the only autoscaler that works: nothing says that it may be stopped.
func TestImportStopsNoVPAThatNothingReplaces(t *testing.T) {
	got := newImportTest(t).run("import", "vpa", "-n", "pay")
	assert.Equal(t, exitOK, got.code)
	assert.NotContains(t, got.errOut, "to Off")
	assert.Contains(t, got.errOut, "switch the policy's updateStrategy.type before the VerticalPodAutoscaler is stopped")
}

func TestImportsMistakes(t *testing.T) {
	none := interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}}
		},
	}
	assert.Equal(t, answer{code: exitError, errOut: "error: this cluster has no VerticalPodAutoscalers (autoscaling.k8s.io/v1): choose another one with --context\n"},
		newCLITest(t, none).run("import", "vpa"))
	for want, args := range map[string][]string{
		"VerticalPodAutoscaler wen does not exist in namespace shop: check the name, or choose the namespace with -n": {"import", "vpa", "wen"},
		"a VerticalPodAutoscaler that is named is in one namespace: leave -A out and give the namespace with -n":      {"import", "vpa", "web", "-A"},
		"import what? write kubectl attune import vpa":                                                                {"import"},
	} {
		assert.Equal(t, answer{code: exitError, errOut: "error: " + want + "\n"}, newImportTest(t).run(args...))
	}
	assert.Equal(t, answer{errOut: "there is no VerticalPodAutoscaler to make a policy of\n"}, newImportTest(t).run("import", "vpa", "-n", "empty"))
}
