package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
)

// underClusterPolicy is the usual cluster with one cluster policy, which selects a workload of namespace depot.
func underClusterPolicy(t *testing.T, through interceptor.Funcs) cliTest {
	t.Helper()
	cli := newCLITest(t, through)
	p := &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base", Labels: map[string]string{"team": "platform"}, CreationTimestamp: metav1.NewTime(testNow.Add(-time.Hour))}}
	p.Status = v1alpha1.AttuneClusterPolicyStatus{
		Mode: v1alpha1.UpdateRecommend, Workloads: &v1alpha1.WorkloadCounts{Discovered: 70, WithRecommendations: 60},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMonitoring, Message: "watching 70 workloads in 9 namespaces"}},
	}
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "depot", Name: "deployment-web"}}
	rec.Spec.Workload, rec.Spec.Mode = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}, v1alpha1.UpdateRecommend
	rec.Spec.Policy = v1alpha1.PolicyRef{Kind: v1alpha1.PolicyKindCluster, Name: "base"}
	for _, o := range []client.Object{p, rec, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "depot"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}} {
		require.NoError(t, cli.client.Create(t.Context(), o))
	}
	return cli
}

func TestStatusShowsClusterPolicies(t *testing.T) {
	cli := underClusterPolicy(t, interceptor.Funcs{})
	assert.Regexp(t, `(?m)^- +AttuneClusterPolicy/base +Recommend +70 +60 `, cli.run("status", "-A").out)
	assert.Regexp(t, `(?m)^- +AttuneClusterPolicy/base +Recommend +1 +0 `, cli.run("status", "-n", "depot").out, "the namespace's part")
	assert.Regexp(t, `(?m)^- +AttuneClusterPolicy/base +Recommend +0 +0 `, cli.run("status", "-n", "empty").out, "the policy selects the namespace")
	assert.Contains(t, cli.run("status", "-A", "-l", "team=platform").out, "base")
	assert.NotContains(t, cli.run("status", "-A", "-l", "team=shop").out, "base")
}

func TestExplainNamesTheClusterPolicy(t *testing.T) {
	cli := underClusterPolicy(t, interceptor.Funcs{})
	answer := cli.run("explain", "deployment/web", "-n", "depot")
	assert.Contains(t, answer.out, "Deployment/web in namespace depot, sized by policy AttuneClusterPolicy/base in mode Recommend")
	assert.NotContains(t, answer.errOut, "not known", "its settings are resolved")
}

// A user that may not read cluster policies gets a note if one is in effect, and only then.
func TestClusterPoliciesOutOfSight(t *testing.T) {
	cli := underClusterPolicy(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, ok := list.(*v1alpha1.AttuneClusterPolicyList); ok {
			return forbidden("attuneclusterpolicies")
		}
		return c.List(ctx, list, options...)
	}})
	assert.Contains(t, cli.run("status", "-n", "depot").errOut, "cluster policies are not shown: listing cluster policies: attuneclusterpolicies")
	assert.NotContains(t, cli.run("status", "-n", "shop").errOut, "cluster policies")
	assert.Contains(t, cli.run("explain", "deployment/web", "-n", "depot").errOut, "next resizes of policy AttuneClusterPolicy/base are not shown")
}

// explain shows what the policy remarks while it is ready, such as dropped samples that block nothing.
func TestExplainShowsTheRemarksOfThePolicy(t *testing.T) {
	cli := underClusterPolicy(t, interceptor.Funcs{})
	assert.NotContains(t, cli.run("explain", "deployment/web", "-n", "shop").errOut, "policy api: ")
	p := &v1alpha1.AttunePolicy{}
	require.NoError(t, cli.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "api"}, p))
	const remark = "container app of Deployment/web: 1 % of the cpu samples of the last day were dropped, up to 1602 cores: no container can use more than 96 cores"
	p.Status.Conditions[0].Message += "; " + remark + "; warning from the usage source: two servers write one series"
	require.NoError(t, cli.client.Update(t.Context(), p))
	assert.Contains(t, cli.run("explain", "deployment/web", "-n", "shop").errOut, "policy api: "+remark+"\n")
}
