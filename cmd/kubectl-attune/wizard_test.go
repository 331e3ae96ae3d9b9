package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// wizardFlags answer all questions.
var wizardFlags = strings.Fields("wizard --workloads deployment --mode Auto --strategy Workload --resizes InPlace")

// The wizard replays its policy on the stored histories of the selected workloads, whatever their policies, by the
// code of backtest --from.
func TestWizardWithABacktest(t *testing.T) {
	c := newCLITest(t, interceptor.Funcs{})
	c.remembered(7)
	got := c.run(append(wizardFlags, "--name", "new")...)
	require.Equal(t, exitOK, got.code, got.errOut)
	golden(t, "wizard.yaml", got.out)
	golden(t, "wizard.txt", got.errOut)
	judged := c.run("backtest", "--from", "embedded", "api")
	require.Equal(t, exitOK, judged.code)
	assert.Contains(t, got.errOut, judged.out, "it is the backtest of the policy that has the same settings")

	var of struct {
		Metadata struct{ Name, Namespace string }
	}
	require.NoError(t, json.Unmarshal([]byte(c.run(append(wizardFlags, "-o", "json")...).out), &of))
	assert.Equal(t, "deployments", of.Metadata.Name)
	assert.Equal(t, "shop", of.Metadata.Namespace)
}

// Without usage to replay, one sentence gives the reason, and the policy is still written.
func TestWizardWithoutABacktest(t *testing.T) {
	c := newCLITest(t, interceptor.Funcs{})
	young := newCLITest(t, interceptor.Funcs{})
	young.remembered(1)
	blind := newCLITest(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, recommendations := list.(*v1alpha1.AttuneRecommendationList); recommendations {
			return forbidden("attunerecommendations")
		}
		return c.List(ctx, list, options...)
	}})
	for _, test := range []struct {
		in   cliTest
		args string
		want string
	}{
		{c, "", "no backtest: no usage data of these workloads (embedded)"},
		{young, "", "no backtest: the longest history is 23h55m0s, and the first 24h0m0s of each container are not scored"},
		{c, "--strategy Node", "no backtest: backtest does not support strategy Node"},
		{c, "--workloads job", "no backtest: the policy selects no workload"},
		{c, "--address http://127.0.0.1:1", "no backtest: usage of Deployment/"},
		{blind, "", "no backtest: listing the recommendations: missing permission"},
	} {
		got := test.in.run(append(append([]string{}, wizardFlags...), strings.Fields(test.args)...)...)
		assert.Equal(t, exitOK, got.code, got.errOut)
		assert.Contains(t, got.errOut, test.want)
		assert.Equal(t, 1, strings.Count(got.errOut, "no backtest: "), got.errOut)
		assert.Contains(t, got.out, "kind: AttunePolicy\n")
	}
}

// An existing policy of the name with another target is detected even if the user may not list the workloads.
func TestWizardReplacesNoPolicyOfAnotherTarget(t *testing.T) {
	for _, through := range []interceptor.Funcs{{}, noRight(workload.NewList(v1alpha1.KindDeployment), "deployments")} {
		cli := newCLITest(t, through)
		other := &v1alpha1.AttunePolicy{}
		other.Name, other.Namespace, other.Spec.TargetRef = "deployments", "shop", v1alpha1.TargetRef{Kind: v1alpha1.KindStatefulSet, Name: "db"}
		require.NoError(t, cli.client.Create(t.Context(), other))
		assert.Equal(t, answer{
			code:   exitError,
			errOut: "error: policy deployments in namespace shop has another target, StatefulSet/db, and kubectl apply would replace it: specify another name with --name\n",
		}, cli.run(wizardFlags...))
		assert.Contains(t, cli.run(append(wizardFlags, "--name", "deployments")...).errOut, "policy deployments in namespace shop has another target, StatefulSet/db: kubectl apply replaces it\n")
	}
}

// A policy belongs to one namespace, so the wizard rejects -A and -l.
func TestWizardIsOfOneNamespace(t *testing.T) {
	for _, args := range [][]string{{"-A"}, {"-l", "tier=api"}} {
		got := newCLITest(t, interceptor.Funcs{}).run(append(append([]string{}, wizardFlags...), args...)...)
		assert.Equal(t, answer{code: exitError, errOut: "error: an AttunePolicy belongs to one namespace: instead of -A and -l, specify the namespace with -n and labels with --workloads deployment,tier=api\n"}, got)
	}
	got := newCLITest(t, interceptor.Funcs{}).run("wizard")
	assert.Equal(t, exitError, got.code)
	assert.Contains(t, got.errOut, "stdin is not a terminal")
}
