package autoscale_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/internal/autoscale"
)

// rewritten is an HPA at a target, with the annotation of attune if it is not empty.
func rewritten(target int32, annotation string) autoscalingv2.HorizontalPodAutoscaler {
	of := hpa("web", ofPods("cpu", utilization(target)))
	if annotation != "" {
		of.Annotations = map[string]string{autoscale.OriginalTargetAnnotation: annotation}
	}
	return of
}

func TestOriginalTargetOfAnHPA(t *testing.T) {
	type change = func(*autoscalingv2.HorizontalPodAutoscaler)
	fields := func(manager, raw string) change {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(raw)}}
		}
	}
	const metrics = `{"f:spec":{"f:metrics":{}}}`
	mark := func(name string) change {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) { metav1.SetMetaDataLabel(&h.ObjectMeta, name, "x") }
	}
	owned := func(kind string) change {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: kind, Name: "shop"}}
		}
	}
	window := func(seconds *int32) change {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: seconds}}
		}
	}
	for _, tc := range []struct {
		name     string
		target   int32
		stored   string
		change   change
		original int32
		why      string
	}{
		{"never rewritten", 70, "", nil, 70, ""},
		{"rewritten", 85, `{"metric":"cpu","original":70,"written":85}`, nil, 70, ""},
		{"set back by a user", 70, `{"metric":"cpu","original":70,"written":85}`, nil, 70, ""},
		{"changed by a user", 60, `{"metric":"cpu","original":70,"written":85}`, nil, 60, "it was changed after attune had rewritten it from 70 % to 85 %"},
		{"an annotation that is no JSON", 85, `70`, nil, 85, "is not readable"},
		{"an annotation without figures", 85, `{"metric":"cpu"}`, nil, 85, "is not readable"},
		{"an annotation of a container", 85, `{"metric":"cpu/app","original":70,"written":85}`, nil, 85, "is for the metric cpu/app"},
		{"no target", 0, "", nil, 0, "is not set"},
		{"minReplicas 0", 70, "", func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MinReplicas = ptr.To[int32](0) }, 70, "has minReplicas 0"},
		{"two targets of CPU", 70, "", func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Spec.Metrics = append(h.Spec.Metrics, ofContainer("app", "cpu", utilization(60)))
		}, 70, "more than one target of CPU utilization"},
		{"a target of memory too", 70, "", func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Spec.Metrics = append(h.Spec.Metrics, ofPods("memory", utilization(60)))
		}, 70, ""},
		{"no window", 70, "", window(nil), 70, ""},
		{"a window of a minute", 70, "", window(ptr.To[int32](60)), 70, ""},
		{"a shorter window", 70, "", window(ptr.To[int32](59)), 70, "waits only 59 s"},
		{"written by Argo CD", 70, "", fields("argocd-controller", metrics), 70, "belongs to Argo CD"},
		{"its labels written by Argo CD", 70, "", fields("argocd-controller", `{"f:metadata":{}}`), 70, ""},
		{"written by Flux", 70, "", fields("kustomize-controller", metrics), 70, "belongs to Flux"},
		{"written by kubectl", 70, "", fields("kubectl-client-side-apply", metrics), 70, ""},
		{"tracked by Argo CD", 70, "", mark("argocd.argoproj.io/tracking-id"), 70, "belongs to Argo CD"},
		{"of a HelmRelease of Flux", 70, "", mark("helm.toolkit.fluxcd.io/name"), 70, "belongs to Flux"},
		{"of a Helm chart", 70, "", mark("app.kubernetes.io/managed-by"), 70, ""},
		{"of a ScaledObject", 70, "", owned("ScaledObject"), 70, ""},
		{"of a custom object", 70, "", owned("Shop"), 70, "belongs to Shop shop"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			of := rewritten(tc.target, tc.stored)
			if tc.change != nil {
				tc.change(&of)
			}
			bindings := autoscale.Bindings(&of, web())
			require.NotEmpty(t, bindings)
			original, why := autoscale.OriginalTarget(&of, bindings[0])
			assert.Equal(t, tc.original, original)
			if tc.why == "" {
				assert.Empty(t, why)
			} else {
				assert.Contains(t, why, tc.why)
			}
		})
	}
	of := hpa("web", ofContainer("app", "cpu", utilization(85)), ofPods("memory", utilization(60)))
	of.Annotations = map[string]string{autoscale.OriginalTargetAnnotation: `{"metric":"cpu/app","original":70,"written":85}`}
	original, why := autoscale.OriginalTarget(&of, autoscale.Bindings(&of, web())[0])
	assert.Equal(t, int32(70), original)
	assert.Empty(t, why)
	_, why = autoscale.OriginalTarget(&of, autoscale.Bindings(&of, web())[1])
	assert.Equal(t, "attune rewrites targets of CPU only", why)
}
