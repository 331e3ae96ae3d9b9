package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

func TestPolicyReportsAutoscalerBlocks(t *testing.T) {
	rec := func(name string, holds ...v1alpha1.Hold) v1alpha1.AttuneRecommendation {
		return v1alpha1.AttuneRecommendation{Spec: v1alpha1.AttuneRecommendationSpec{
			Workload: v1alpha1.WorkloadRef{Name: name}, Containers: []v1alpha1.ContainerTarget{{Name: "app", Holds: holds}},
		}}
	}
	hpa := v1alpha1.Hold{Resource: "cpu", Reason: "HPA", Message: "a scales on it"}
	vpa := v1alpha1.Hold{Resource: "cpu", Reason: "VPA", Message: "b sizes it"}
	harmed := rec("z", hpa)
	meta.SetStatusCondition(&harmed.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionResizeBlocked, Status: metav1.ConditionTrue, Reason: "Quota", Message: "full",
	})
	for _, tc := range []struct {
		name            string
		recs            []v1alpha1.AttuneRecommendation
		reason, message string
	}{
		{"nothing held", []v1alpha1.AttuneRecommendation{rec("web", v1alpha1.Hold{Resource: "cpu", Reason: "StaleData"})}, "NotBlocked", ""},
		{"an HPA", []v1alpha1.AttuneRecommendation{rec("web", hpa)}, "HPA", "web/app: cpu: a scales on it"},
		{"a VPA holds more", []v1alpha1.AttuneRecommendation{rec("web", hpa), rec("api", vpa)}, "VPA", "api/app: cpu: b sizes it"},
		{"what the workload loop says comes first", []v1alpha1.AttuneRecommendation{rec("web", vpa), harmed}, "Quota", "z: full"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := report{recommendations: tc.recs}.blocked()
			assert.Equal(t, []string{tc.reason, tc.message}, []string{c.Reason, c.Message})
			assert.Equal(t, tc.reason != "NotBlocked", c.Status == metav1.ConditionTrue)
		})
	}
}
