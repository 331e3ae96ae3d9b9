package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
)

// A LimitRange that keeps a CPU limit is read only if cpu.limits asks for something else than Keep.
func TestExplainReadsWhatKeepsACPULimit(t *testing.T) {
	const why = "blocked, CPULimitNeeded: new pods: the CPU limit stays: a LimitRange of the namespace has a default, max or maxLimitRequestRatio of CPU. Remove it"
	cli := newCLITest(t, interceptor.Funcs{})
	require.NoError(t, cli.client.Create(t.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "defaults"},
		Spec:       corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{"cpu": resource.MustParse("2")}}}},
	}))
	assert.NotContains(t, cli.run("explain", "deployment/web").out, "CPULimitNeeded")

	p := &v1alpha1.AttunePolicy{}
	require.NoError(t, cli.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "api"}, p))
	p.Spec.CPU = &v1alpha1.CPUSettings{Limits: &v1alpha1.CPULimits{JSON: `"Remove"`}}
	require.NoError(t, cli.client.Update(t.Context(), p))
	assert.Contains(t, cli.run("explain", "deployment/web").out, why)
}
