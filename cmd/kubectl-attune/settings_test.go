package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
)

// changePolicy updates the policy api.
func (c cliTest) changePolicy(change func(*v1alpha1.AttunePolicy)) {
	c.t.Helper()
	var policy v1alpha1.AttunePolicy
	require.NoError(c.t, c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "shop", Name: "api"}, &policy))
	change(&policy)
	require.NoError(c.t, c.client.Update(c.t.Context(), &policy))
}

func TestExplainUsesThePolicysSettings(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	cli.changePolicy(func(p *v1alpha1.AttunePolicy) {
		p.Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{MaxChangePercent: new(int32(10))}}
	})
	assert.Contains(t, cli.run("explain", "deploy/web").out, "web-7c9-aaaaa: cpu request 250m -> 225m")
}

func TestExplainUsesTheDefaultsOfBothLevels(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	cluster := &v1alpha1.AttuneDefaults{}
	cluster.Name = v1alpha1.DefaultsName
	cluster.Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{MaxChangePercent: new(int32(10))}}
	require.NoError(t, cli.client.Create(t.Context(), cluster))
	assert.Contains(t, cli.run("explain", "deploy/web").out, "web-7c9-aaaaa: cpu request 250m -> 225m")

	namespace := &v1alpha1.AttuneNamespaceDefaults{}
	namespace.Name, namespace.Namespace = v1alpha1.DefaultsName, "shop"
	namespace.Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{MaxChangePercent: new(int32(12))}}
	require.NoError(t, cli.client.Create(t.Context(), namespace))
	assert.Contains(t, cli.run("explain", "deploy/web").out, "web-7c9-aaaaa: cpu request 250m -> 220m")
}

// Each setting is shown with the object that sets it. Settings that no object sets are shown with -o wide.
func TestExplainShowsOriginOfSettings(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	cluster := &v1alpha1.AttuneDefaults{}
	cluster.Name = v1alpha1.DefaultsName
	cluster.Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{MaxChangePercent: new(int32(10)), Percentile: new(int32(90))}}
	require.NoError(t, cli.client.Create(t.Context(), cluster))
	namespace := &v1alpha1.AttuneNamespaceDefaults{}
	namespace.Name, namespace.Namespace = v1alpha1.DefaultsName, "shop"
	namespace.Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{Percentile: new(int32(99))}}
	require.NoError(t, cli.client.Create(t.Context(), namespace))

	got := cli.run("explain", "deploy/web").out
	_, settings, found := strings.Cut(got, "\nSettings\n")
	require.True(t, found, got)
	assert.Equal(t, []string{
		"cpu.maxChangePercent 10 AttuneDefaults default",
		"cpu.percentile 99 AttuneNamespaceDefaults default of shop",
		"updateStrategy.type Auto AttunePolicy api",
	}, columns(settings))
	assert.Contains(t, columns(cli.run("explain", "deploy/web", "-o", "wide").out), "memory.percentile 99 built-in")
	assert.Contains(t, cli.run("explain", "deploy/web", "-o", "json").out, `"field": "cpu.percentile",
      "value": "99",
      "setBy": "AttuneNamespaceDefaults default of shop"`)
	assert.NotContains(t, cli.run("explain", "sts/db", "-n", "pay").out, "Settings", "its policy was deleted")
}

// columns returns the lines of a text, with one space between columns.
func columns(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestExplainWithoutSettingsHasNoNextStep(t *testing.T) {
	t.Run("invalid", func(t *testing.T) {
		cli := newCLITest(t, interceptor.Funcs{})
		cli.changePolicy(func(p *v1alpha1.AttunePolicy) {
			p.Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{
				MinAllowed: new(resource.MustParse("2")), MaxAllowed: new(resource.MustParse("900m")),
			}}
		})
		got := cli.run("explain", "deploy/web")
		assert.Equal(t, exitOK, got.code)
		assert.Contains(t, got.errOut, "next resizes of policy api are not shown: cpu.minAllowed 2")
		assert.Contains(t, got.out, "cpu: request 500m, next none, target 200m")
	})
	t.Run("not allowed by the operator", func(t *testing.T) {
		cli := newCLITest(t, interceptor.Funcs{})
		why := "metricsSource.prometheus http://own:9090 is not allowed in namespace shop: leave it out to use the operator's source"
		cli.changePolicy(func(p *v1alpha1.AttunePolicy) {
			p.Spec.MetricsSource = &v1alpha1.MetricsSource{Prometheus: &v1alpha1.PrometheusSource{Address: "http://own:9090"}}
			meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalidConfig, Message: why, ObservedGeneration: p.Generation,
			})
		})
		got := cli.run("explain", "deploy/web")
		assert.Contains(t, got.errOut, "next resizes of policy api are not shown: "+why)
		assert.Contains(t, got.out, "cpu: request 500m, next none, target 200m")
	})
	t.Run("mended since", func(t *testing.T) {
		cli := newCLITest(t, interceptor.Funcs{})
		cli.changePolicy(func(p *v1alpha1.AttunePolicy) {
			meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalidConfig, ObservedGeneration: p.Generation - 1,
			})
		})
		assert.NotContains(t, cli.run("explain", "deploy/web").out, "next none")
	})
	t.Run("deleted", func(t *testing.T) {
		got := newCLITest(t, interceptor.Funcs{}).run("explain", "sts/db", "-n", "pay")
		assert.Equal(t, exitOK, got.code)
		assert.Contains(t, got.errOut, `next resizes of policy store are not shown: attunepolicies.attune.io "store" not found`)
		assert.Contains(t, got.out, "cpu: request 2, next none, target 3")
	})
	t.Run("decided on the node", func(t *testing.T) {
		cli := newCLITest(t, interceptor.Funcs{})
		cli.changePolicy(func(p *v1alpha1.AttunePolicy) { p.Spec.Strategy = new(v1alpha1.StrategyNode) })
		assert.Contains(t, cli.run("explain", "deploy/web").out, "cpu: request 500m, next none, target 200m")
	})
}
