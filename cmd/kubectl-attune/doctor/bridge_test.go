package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
)

// publishedVPA returns a VPA of the operator for Deployment web.
func publishedVPA() unstructured.Unstructured {
	u := unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"targetRef":    map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		"updatePolicy": map[string]any{"updateMode": "Initial"}, "recommenders": []any{map[string]any{"name": "attune"}},
	}}}
	u.SetNamespace("shop")
	u.SetName("attune-deployment-web")
	u.SetLabels(map[string]string{autoscale.ManagedByLabel: autoscale.ManagedBy})
	return u
}

func TestBridge(t *testing.T) {
	noKind := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "VerticalPodAutoscaler"}}
	vpa := admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "vpa-webhook-config"}}
	for _, tc := range []struct {
		name  string
		on    bool
		spoil func(*Seen)
		want  Level
		says  string
	}{
		{"on", true, nil, OK, "attune publishes recommendations to other programs as 1 VerticalPodAutoscalers in the whole cluster"},
		{"on without the kind", true, func(s *Seen) { s.Neighbours.VPAs = Read[unstructured.Unstructured]{Err: noKind} }, Warning, "VerticalPodAutoscalers are not installed"},
		{"on beside VPA", true, func(s *Seen) { s.Admission.Mutating.Value = append(s.Admission.Mutating.Value, vpa) }, Warning, "VPA's admission controller is registered (vpa-webhook-config)"},
		{"on, and the webhooks may not be read", true, func(s *Seen) {
			s.Admission.Mutating.Err = apierrors.NewForbidden(schema.GroupResource{}, "", nil)
		}, Unknown, "missing permission to read MutatingWebhookConfigurations"},
		{"off, and one is left", false, nil, Warning, "1 VerticalPodAutoscalers of attune remain"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := controller(nil, 1)
			d.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"controller"}}}
			if tc.on {
				d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args, "--bridge-vpa-role=attune-bridge-vpa")
			}
			seen := installed(d)
			seen.Neighbours.VPAs.Value = []unstructured.Unstructured{publishedVPA()}
			if tc.spoil != nil {
				tc.spoil(seen)
			}
			results := of(seen, "bridge")
			require.Len(t, results, 1)
			assert.Equal(t, tc.want, results[0].Result)
			assert.Contains(t, results[0].Sentence, tc.says)
			assert.Equal(t, tc.want == OK, results[0].Command == "")
		})
	}
	assert.Empty(t, of(installed(controller(nil, 1)), "bridge"), "who has no bridge is told nothing")
}

// If a user took over one of the VPAs, the deletion command names the others, because all of them have the label.
func TestTakenOverObjectsAreNotDeleted(t *testing.T) {
	var vpas []unstructured.Unstructured
	add := func(namespace, workload, mode string) {
		vpa := publishedVPA()
		vpa.SetNamespace(namespace)
		vpa.SetName("attune-deployment-" + workload)
		require.NoError(t, unstructured.SetNestedField(vpa.Object, workload, "spec", "targetRef", "name"))
		require.NoError(t, unstructured.SetNestedField(vpa.Object, mode, "spec", "updatePolicy", "updateMode"))
		vpas = append(vpas, vpa)
	}
	left := func() Result {
		seen := installed(controller(nil, 1))
		seen.Neighbours.VPAs.Value = vpas
		results := of(seen, "bridge")
		require.Len(t, results, 1)
		return results[0]
	}
	add("shop", "web", "Initial")
	add("shop", "api", "Off")
	add("batch", "report", "Off")
	assert.Equal(t, "kubectl delete verticalpodautoscalers --all-namespaces --selector app.kubernetes.io/managed-by=attune", left().Command)
	add("shop", "taken", "Recreate")
	assert.Equal(t, "kubectl delete verticalpodautoscalers --namespace batch attune-deployment-report && "+
		"kubectl delete verticalpodautoscalers --namespace shop attune-deployment-api attune-deployment-web", left().Command)
	assert.Contains(t, left().Sentence, "; the command does not delete 1 with the same label that users took over")
	for i := range 30 {
		add("shop", fmt.Sprintf("x%02d", i), "Off")
	}
	assert.Equal(t, 20, strings.Count(left().Command, " attune-deployment-"), "as many as can be read; the others are named next time")
	assert.Contains(t, left().Sentence, "the command deletes 20 of them")
	assert.NotContains(t, left().Command, "taken")
}

// The operator's own VPAs do not count as VPAs that size a workload.
func TestOwnVPAsSizeNothing(t *testing.T) {
	seen := &Seen{Neighbours: Neighbours{VPAs: Read[unstructured.Unstructured]{Value: []unstructured.Unstructured{publishedVPA()}}}}
	rec := v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
	rec.Spec.Mode = v1alpha1.UpdateAuto
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}
	seen.Recommendations.Value = []v1alpha1.AttuneRecommendation{rec}
	assert.Equal(t, OK, level(t, seen, "vpa"))
	unmarked := publishedVPA()
	unmarked.SetLabels(nil)
	seen.Neighbours.VPAs.Value = append(seen.Neighbours.VPAs.Value, unmarked)
	assert.Len(t, of(seen, "vpa"), 1)
	assert.Equal(t, Warning, level(t, seen, "vpa"))
}
