package main

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// changeWeb updates the Deployment web and its recommendation, which nothing blocks.
func (c cliTest) changeWeb(change func(*appsv1.Deployment, *v1alpha1.AttuneRecommendation)) {
	c.t.Helper()
	web, rec := &appsv1.Deployment{}, &v1alpha1.AttuneRecommendation{}
	require.NoError(c.t, c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, web))
	require.NoError(c.t, c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "shop", Name: "deployment-web"}, rec))
	meta.RemoveStatusCondition(&rec.Status.Conditions, v1alpha1.ConditionResizeBlocked)
	change(web, rec)
	require.NoError(c.t, c.client.Update(c.t.Context(), web))
	require.NoError(c.t, c.client.Update(c.t.Context(), rec))
}

// krrValue has the values of one resource of a container that a script reads.
type krrValue struct{ request, limit, info any }

// krrOfWeb returns the values of the container app of Deployment/web.
func (c cliTest) krrOfWeb() (cpu, memory krrValue) {
	c.t.Helper()
	got := c.run("recommendations", "deploy/web", "-o", "krr")
	require.Equal(c.t, exitOK, got.code, got.errOut)
	type values map[string]struct{ Value any }
	var of struct {
		Scans []struct {
			Recommended struct {
				Requests, Limits values
				Info             map[string]any
			}
		}
	}
	require.NoError(c.t, json.Unmarshal([]byte(got.out), &of))
	require.Len(c.t, of.Scans, 2)
	app := of.Scans[0].Recommended
	value := func(r string) krrValue { return krrValue{app.Requests[r].Value, app.Limits[r].Value, app.Info[r]} }
	return value("cpu"), value("memory")
}

// A reason that blocks a workload blocks all its resources: a script that applies values gets the reason instead.
func TestKRRHasNoValuesOfBlockedWorkload(t *testing.T) {
	annotated := func(key, value string) func(*appsv1.Deployment, *v1alpha1.AttuneRecommendation) {
		return func(d *appsv1.Deployment, _ *v1alpha1.AttuneRecommendation) {
			d.Annotations = map[string]string{key: value}
		}
	}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment, *v1alpha1.AttuneRecommendation)
		why    string
	}{
		"a paused workload":      {annotated(v1alpha1.PausedAnnotation, "true"), "Paused: the workload, its policy or the defaults are paused, or an undo was requested"},
		"an undone one":          {annotated(v1alpha1.UndoAnnotation, "2026-03-02T11:00:00Z"), "Paused: the workload, its policy or the defaults are paused, or an undo was requested"},
		"one that is left alone": {annotated(v1alpha1.SkipAnnotation, "true"), "Skipped: attune skips Deployment/web"},
		"paused by the operator": {func(_ *appsv1.Deployment, rec *v1alpha1.AttuneRecommendation) {
			rec.Status.Paused = &v1alpha1.PausedState{Since: metav1.NewTime(testNow), Reason: "another writer"}
		}, "Paused: another writer"},
		"strategy Node": {func(_ *appsv1.Deployment, rec *v1alpha1.AttuneRecommendation) {
			rec.Spec.Strategy = v1alpha1.StrategyNode
		}, "OnItsNode: the resources of pods are decided on their node: run kubectl attune node NAME"},
		"a seed that did harm": {func(_ *appsv1.Deployment, rec *v1alpha1.AttuneRecommendation) {
			rec.Spec.SeedBlocked = "SeedMarkedBad"
		}, "SeedBlocked: new pods keep the resources of their template: SeedMarkedBad"},
		"no room in the quota": {func(_ *appsv1.Deployment, rec *v1alpha1.AttuneRecommendation) {
			rec.Status.Conditions = append(rec.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionResizeBlocked, Status: metav1.ConditionTrue, Reason: "Quota", Message: "no room",
			})
		}, "Quota: no room"},
		"two reasons": {func(_ *appsv1.Deployment, rec *v1alpha1.AttuneRecommendation) {
			rec.Status.Paused = &v1alpha1.PausedState{Since: metav1.NewTime(testNow), Reason: "another writer"}
			rec.Status.Conditions = append(rec.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: "HighRevertRate", Message: "3 of 5",
			})
			rec.Spec.SeedBlocked = "Paused"
		}, "Paused: another writer; HighRevertRate: 3 of 5"},
	} {
		t.Run(name, func(t *testing.T) {
			cli := newCLITest(t, interceptor.Funcs{})
			cli.changeWeb(test.change)
			cpu, memory := cli.krrOfWeb()
			assert.Equal(t, krrValue{"?", "?", test.why}, cpu)
			assert.Equal(t, "?", memory.request)
			assert.Equal(t, "?", memory.limit)
			assert.Contains(t, memory.info, test.why)
		})
	}
}

// The policy's strategy Node blocks as soon as it is set.
func TestKRROfAPolicyThatBecameNode(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	cli.changeWeb(func(*appsv1.Deployment, *v1alpha1.AttuneRecommendation) {})
	cli.changePolicy(func(p *v1alpha1.AttunePolicy) { p.Spec.Strategy = new(v1alpha1.StrategyNode) })
	cpu, memory := cli.krrOfWeb()
	why := "OnItsNode: the resources of pods are decided on their node: run kubectl attune node NAME"
	assert.Equal(t, krrValue{"?", "?", why}, cpu)
	assert.Equal(t, krrValue{"?", "?", why}, memory)
}

// Without the settings it is unknown whether memory may be lowered, and without the template whether it would be.
func TestKRRHasNoValueWhereTheUserMayNotReadEnough(t *testing.T) {
	defaults := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, is := object.(*v1alpha1.AttuneDefaults); is {
			return forbidden("attunedefaults")
		}
		return c.Get(ctx, key, object, options...)
	}}
	for _, test := range []struct {
		through interceptor.Funcs
		why     string
	}{
		{defaults, "Unknown: the settings of policy api are not known"},
		{noRight(workload.NewList(v1alpha1.KindDeployment), "deployments"), "Unknown: the workload does not exist, or cannot be read"},
	} {
		cli := newCLITest(t, test.through)
		cli.changeWeb(func(*appsv1.Deployment, *v1alpha1.AttuneRecommendation) {})
		cpu, memory := cli.krrOfWeb()
		assert.Equal(t, krrValue{"?", "?", test.why}, cpu)
		assert.Equal(t, krrValue{"?", "?", test.why}, memory)
	}
}

// A mode that changes no pods does not block values, because such scripts are made for it.
func TestKRRHasValuesInEveryMode(t *testing.T) {
	for _, blocked := range []string{"", "ModeRecommend", "Blocked"} {
		cli := newCLITest(t, interceptor.Funcs{})
		cli.changeWeb(func(_ *appsv1.Deployment, rec *v1alpha1.AttuneRecommendation) {
			rec.Spec.Mode, rec.Spec.SeedBlocked = v1alpha1.UpdateRecommend, blocked
			rec.Status.Conditions = append(rec.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionResizeBlocked, Status: metav1.ConditionTrue, Reason: "Mode", Message: "mode Recommend leaves running pods as they are",
			})
		})
		cpu, memory := cli.krrOfWeb()
		assert.Equal(t, krrValue{0.2, 0.4, nil}, cpu, blocked)
		assert.Equal(t, "?", memory.request)
		assert.Contains(t, memory.info, "AllowDecrease")
	}
}
