package tuning_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

func TestAnOOMFloorIsTheRequestOnlyWithoutALimitAndAnHPA(t *testing.T) {
	const mi = 1 << 20
	floors := []v1alpha1.Floor{{
		Container: "app", Resource: "memory", Reason: "oomkill", LearnedAt: metav1.NewTime(now),
		Amount: podview.Quantity(recommender.Memory, 700*mi),
	}}
	for _, tc := range []struct {
		name, held        string
		live, limit, want recommender.Amount
	}{
		{"no history, below it", "NoData", 512 * mi, 0, 700 * mi},
		{"no history, at it", "NoData", 700 * mi, 0, 0},
		{"no history, above it", "NoData", 900 * mi, 0, 0},
		{"no history, with a limit", "NoData", 512 * mi, 600 * mi, 0},
		{"an HPA", "HPA", 512 * mi, 0, 0},
		{"an HPA, with a limit", "HPA", 512 * mi, 600 * mi, 0},
	} {
		held := v1alpha1.ContainerTarget{Name: "app", Holds: []v1alpha1.Hold{{Resource: "memory", Reason: tc.held}}}
		live := recommender.Size{recommender.Memory: {Request: tc.live, Limit: tc.limit}}
		got := resize.TargetFrom(held, live, floors, now)
		assert.Equal(t, recommender.Size{recommender.Memory: {Request: tc.want}}, got, tc.name)
	}
}

// sizedByVPA returns the view of a workload that a VPA sizes.
func sizedByVPA(mode v1alpha1.UpdateType) tuning.View {
	vpa := unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "sizer"},
		"spec":     map[string]any{"targetRef": map[string]any{"kind": "Deployment", "name": "web"}},
	}}
	web := workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Name: "web"}}
	w := tuning.View{
		Rec: &v1alpha1.AttuneRecommendation{}, Policy: tuning.PolicyView{Usable: true}, Workload: &web, Now: now,
		Autoscalers: autoscale.Autoscalers{VPAs: []unstructured.Unstructured{vpa}}.Of(web),
	}
	w.Policy.Settings.Resize.Mode = mode
	return w
}

func TestAVPAIsToldWhereAnythingWouldBeApplied(t *testing.T) {
	for mode, told := range map[v1alpha1.UpdateType]bool{
		v1alpha1.UpdateObserve: false, v1alpha1.UpdateRecommend: false, v1alpha1.UpdateInitial: true,
		v1alpha1.UpdateOneShot: true, v1alpha1.UpdateCanary: true, v1alpha1.UpdateAuto: true,
	} {
		d := tuning.Decide(sizedByVPA(mode))
		assert.Equal(t, told, len(d.Events) == 1, mode)
		assert.Equal(t, told, meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionResizeBlocked), mode)
	}
}

func TestAVPAIsToldOnceAndStopsEverythingNew(t *testing.T) {
	w := sizedByVPA(v1alpha1.UpdateAuto)
	first := tuning.Decide(w)
	if assert.Len(t, first.Events, 1) {
		assert.Equal(t, v1alpha1.EventResizeSkipped, first.Events[0].Reason)
		assert.Contains(t, first.Events[0].Message, "VerticalPodAutoscaler sizer")
	}
	w.Rec.Status = first.Status
	assert.Empty(t, tuning.Decide(w).Events, "the condition is there already")

	w.Autoscalers = autoscale.Holds{}
	second := tuning.Decide(w)
	assert.Empty(t, second.Events)
	for _, c := range second.Status.Conditions {
		assert.Equal(t, metav1.ConditionFalse, c.Status, c.Type)
	}
}
