package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
)

// completed returns the completions that the shell gets, without the directive at the end.
func completed(cli cliTest, args ...string) []string {
	out := cli.run(append([]string{"__complete"}, args...)...).out
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	return lines[:len(lines)-1]
}

func TestCompletion(t *testing.T) {
	cli := newImportTest(t)
	for _, o := range readObjects(t, "testdata/doctor.yaml")[:2] {
		assert.NoError(t, cli.client.Create(t.Context(), o))
	}
	for line, want := range map[string][]string{
		"explain de":                      {"deployment/"},
		"explain d":                       {"daemonset/", "deployment/"},
		"explain sts":                     {"sts/"},
		"explain deploy/":                 {"deploy/gone", "deploy/web"},
		"explain deploy/w":                {"deploy/web"},
		"wizard --resizes ":               {"InPlace", "OneByOne", "OrRecreate"},
		"explain deploy/web deploy/":      {},
		"diff deploy/web deploy/":         {"deploy/gone"},
		"pause -n pay statefulset/":       {"statefulset/db"},
		"undo Deployment/g":               {"Deployment/gone"},
		"savings pod/":                    {},
		"history -A deploy/":              {},
		"recommendations deployments.ap":  {},
		"recommendations deployment.apps": {"deployment.apps/"},
		"node worker":                     {"worker-1", "worker-2"},
		"node worker-1 ":                  {},
		"import vpa w":                    {"web"},
		"import vpa web ":                 {"batch"},
		"import ":                         {"vpa\tPrint an AttunePolicy for each VerticalPodAutoscaler"},
		"status ":                         {},
	} {
		assert.Equal(t, want, completed(cli, strings.Split(line, " ")...), line)
	}
}

// A shell inserts completions into the command line as they are.
func TestCompletionsAreOnlyNames(t *testing.T) {
	for name, want := range map[string]bool{"web": true, "identity:Nightly_x.1": true, "": false, "a$(id)": false, "a`id`": false, "a;b": false, "a b": false, "a\nb": false, "ä": false} {
		assert.Equal(t, want, isPlainName(name), "%q", name)
	}
}

// Without a cluster or without rights, completion offers nothing and prints nothing.
func TestCompletionWithoutRights(t *testing.T) {
	for _, cli := range []cliTest{{t: t}, newCLITest(t, noRight(&v1alpha1.AttuneRecommendationList{}, "attunerecommendations"))} {
		assert.Empty(t, completed(cli, "explain", "deploy/"))
		assert.Equal(t, []string{"deployment/"}, completed(cli, "explain", "dep"))
	}
}

// If the policies may not be read, the error names both possible causes.
func TestNoRecommendationAndNoRightToReadPolicies(t *testing.T) {
	got := newCLITest(t, noRight(&v1alpha1.AttunePolicyList{}, "attunepolicies")).run("explain", "sts/cache")
	assert.Equal(t, answer{code: exitError, errOut: "error: no recommendation for StatefulSet/cache in namespace shop: " +
		"no policy selects it, or the operator has not reconciled it yet; kubectl attune status shows the policies\n"}, got)
}
