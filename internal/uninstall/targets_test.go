package uninstall

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"

	"attune.io/attune/internal/autoscale"
)

// A raised target goes back to the original one. A lowered one stays: pods that still have the raised requests would have
// too few replicas.
func TestOnlyRaisedTargetsAreRestored(t *testing.T) {
	for name, c := range map[string]struct {
		written, want int64
		says          string
	}{
		"raised":  {90, 70, "HorizontalPodAutoscaler shop/web: target 90 % -> 70 %\n"},
		"lowered": {35, 35, "HorizontalPodAutoscaler shop/web: the target stays 35 % (originally 70 %)"},
	} {
		t.Run(name, func(t *testing.T) {
			metric := map[string]any{"type": "Resource", "resource": map[string]any{
				"name": "cpu", "target": map[string]any{"type": "Utilization", "averageUtilization": c.written}}}
			hpa := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"metrics": []any{metric}}}}
			hpa.SetAPIVersion("autoscaling/v2")
			hpa.SetKind("HorizontalPodAutoscaler")
			hpa.SetNamespace("shop")
			hpa.SetName("web")
			hpa.SetUID("1")
			note := map[string]string{"raised": `{"metric":"cpu","original":70,"written":90}`, "lowered": `{"metric":"cpu","original":70,"written":35}`}[name]
			hpa.SetAnnotations(map[string]string{autoscale.OriginalTargetAnnotation: note})
			out := &strings.Builder{}
			o := Options{Objects: fake.NewSimpleDynamicClient(runtime.NewScheme(), hpa), Out: out}
			require.NoError(t, restoreTarget(t.Context(), retargeted[1], "shop", "web", o))
			assert.Contains(t, out.String(), c.says)
			got, err := o.Objects.Resource(retargeted[1]).Namespace("shop").Get(t.Context(), "web", metav1.GetOptions{})
			require.NoError(t, err)
			metrics, _, err := unstructured.NestedSlice(got.Object, "spec", "metrics")
			require.NoError(t, err)
			target, _, err := unstructured.NestedInt64(metrics[0].(map[string]any), "resource", "target", "averageUtilization")
			require.NoError(t, err)
			assert.Equal(t, c.want, target)
			assert.Equal(t, name == "lowered", got.GetAnnotations()[autoscale.OriginalTargetAnnotation] != "")
		})
	}
}
