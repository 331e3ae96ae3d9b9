package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
)

// With prices every amount has a price, in the currency of the defaults.
func TestSavingsWithPrices(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	require.NoError(t, cli.client.Create(t.Context(), &v1alpha1.AttuneDefaults{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName},
		Spec: v1alpha1.DefaultsSpec{CostPricing: &v1alpha1.CostPricing{
			CPUPerCoreHour: ptr.To(v1alpha1.Decimal("0.03")), MemoryPerGiBHour: ptr.To(v1alpha1.Decimal("0.004")), Currency: "€",
		}},
	}))
	golden(t, "savings-priced.txt", cli.run("savings").out)
	golden(t, "savings-priced.json", cli.run("savings", "deploy/web", "-o", "json").out)
}

func TestSavingsWithoutTheRightToListPods(t *testing.T) {
	got := newCLITest(t, noRight(&corev1.PodList{}, "pods")).run("savings", "deploy/web", "-o", "json")
	assert.Equal(t, exitOK, got.code)
	assert.Contains(t, got.errOut, "what is realised is not known, and potential savings are those of the templates: pods")
	assert.Contains(t, got.out, `"realised": null`)
	assert.Contains(t, got.out, `"cpu": "870m"`, "all three replicas from the template")
}

func TestSavingsOfNothing(t *testing.T) {
	got := newCLITest(t, interceptor.Funcs{}).run("savings", "-n", "empty")
	assert.Equal(t, answer{errOut: "there is no recommendation to compare with: kubectl attune status shows the policies\n"}, got)
}
