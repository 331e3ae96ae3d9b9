package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
)

// newImportTest has the cluster of cluster.yaml and the VPAs of vpas.yaml. Writes are denied.
func newImportTest(t *testing.T, through ...interceptor.Funcs) cliTest {
	t.Helper()
	cli := newCLITest(t, append(through, interceptor.Funcs{})[0])
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

// If the policy only recommends, its VPA is the only working autoscaler: no note advises to stop it.
func TestImportStopsNoVPAThatNothingReplaces(t *testing.T) {
	got := newImportTest(t).run("import", "vpa", "-n", "pay")
	assert.Equal(t, exitOK, got.code)
	assert.NotContains(t, got.errOut, "to Off")
	assert.Contains(t, got.errOut, "change the policy's updateStrategy.type before you stop the VerticalPodAutoscaler")
}

// An existing policy of the same name must not be changed by kubectl apply.
func TestImportDoesNotChangeExistingPolicies(t *testing.T) {
	there := func(cli cliTest, namespace, name string) {
		require.NoError(t, cli.client.Create(t.Context(), &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	}
	taken := func(name string) string {
		return "VerticalPodAutoscaler shop/web: an AttunePolicy named " + name + " already exists, so this one is named "
	}
	cli := newImportTest(t)
	there(cli, "pay", "web")
	got := cli.run("import", "vpa", "web")
	assert.Contains(t, got.out, "\n  name: web\n", "names are of a namespace")
	assert.NotContains(t, got.errOut, "another AttunePolicy")
	there(cli, "shop", "web")
	got = cli.run("import", "vpa", "web")
	assert.Contains(t, got.out, "\n  name: web-vpa\n")
	assert.Contains(t, got.errOut, taken("web")+"web-vpa: delete one of them if both select the same workload\n")
	there(cli, "shop", "web-vpa")
	got = cli.run("import", "vpa", "-A")
	assert.Contains(t, got.out, "\n  name: web-vpa-vpa\n")
	assert.Contains(t, got.errOut, taken("web")+"web-vpa-vpa:")
}

// A user that may not list policies gets a note. A cluster without the kind has no policies.
func TestImportWithoutKnowingThePolicies(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{forbidden("attunepolicies"), "cannot list AttunePolicies, so kubectl apply may replace an existing policy of the same name: missing permission: "},
		{&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "attune.io", Kind: "AttunePolicy"}}, ""},
	} {
		cli := newImportTest(t, interceptor.Funcs{
			List: func(ctx context.Context, of client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if _, policies := list.(*v1alpha1.AttunePolicyList); policies {
					return c.err
				}
				return of.List(ctx, list, options...)
			},
		})
		got := cli.run("import", "vpa", "web")
		assert.Equal(t, exitOK, got.code)
		assert.Contains(t, got.out, "\n  name: web\n")
		assert.Equal(t, c.want != "", strings.Contains(got.errOut, "cannot list"))
		assert.Contains(t, got.errOut, c.want)
	}
}

func TestImportsMistakes(t *testing.T) {
	none := interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}}
		},
	}
	assert.Equal(t, answer{code: exitError, errOut: "error: VerticalPodAutoscalers (autoscaling.k8s.io/v1) are not installed in this cluster: select another cluster with --context\n"},
		newCLITest(t, none).run("import", "vpa"))
	for want, args := range map[string][]string{
		"VerticalPodAutoscaler wen does not exist in namespace shop: check the name, or choose the namespace with -n": {"import", "vpa", "wen"},
		"VerticalPodAutoscaler names cannot be combined with -A: specify the namespace with -n":                       {"import", "vpa", "web", "-A"},
		"import needs a kind of objects: use kubectl attune import vpa":                                               {"import"},
	} {
		assert.Equal(t, answer{code: exitError, errOut: "error: " + want + "\n"}, newImportTest(t).run(args...))
	}
	assert.Equal(t, answer{errOut: "no VerticalPodAutoscalers found\n"}, newImportTest(t).run("import", "vpa", "-n", "empty"))
}

// Manifests need no cluster: charts and Git repositories have VPAs too.
func TestImportVPAsOfAFile(t *testing.T) {
	path := filepath.Join("testdata", "manifests.yaml")
	got := cliTest{t: t}.run("import", "vpa", "-f", path)
	assert.Equal(t, exitOK, got.code, got.errOut)
	golden(t, "import-file.yaml", got.out)
	golden(t, "import-file.yaml.stderr", got.errOut)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	piped := cliTest{t: t, in: string(text)}.run("import", "vpa", "-f", "-")
	assert.Equal(t, got.out, piped.out)

	for want, args := range map[string][]string{
		"-f cannot be combined with names, -A or -l: it reads all VerticalPodAutoscalers of the file": {"import", "vpa", "-f", path, "web"},
		"reading the VerticalPodAutoscalers: open testdata/none.yaml: no such file or directory":      {"import", "vpa", "-f", "testdata/none.yaml"},
	} {
		assert.Equal(t, answer{code: exitError, errOut: "error: " + want + "\n"}, cliTest{t: t}.run(args...))
	}
	nested := `{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: web}, spec: {targetRef: {kind: Deployment, name: web}}}`
	for range 8 {
		nested = "{apiVersion: v1, kind: List, items: [" + nested + "]}"
	}
	got = cliTest{t: t, in: nested}.run("import", "vpa", "-f", "-")
	assert.Contains(t, got.out, "name: web", "kubectl apply reads lists in lists too")
	got = cliTest{t: t, in: "{apiVersion: v1, kind: List, items: [" + nested + "]}"}.run("import", "vpa", "-f", "-")
	assert.Equal(t, answer{code: exitError, errOut: "error: stdin: it has lists in more than 8 lists: write one list\n"}, got)
	assert.Equal(t, answer{errOut: "no VerticalPodAutoscalers found\n"}, cliTest{t: t, in: "kind: Namespace\napiVersion: v1"}.run("import", "vpa", "-f", "-"))
	for _, text := range []string{"{{ if .Values.vpa }}\nkind: VerticalPodAutoscaler\n{{ end }}", "- a", "name: web"} {
		got = cliTest{t: t, in: text}.run("import", "vpa", "-f", "-")
		assert.Equal(t, exitError, got.code, text)
		assert.Less(t, len(got.errOut), 400, text)
	}
}
