package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// The status and the plugin exclude the same: Jobs between their runs, pods sized by their nodes, paused workloads.
func TestStatusAndPluginHaveTheSameSavings(t *testing.T) {
	cases := map[string]struct {
		change func(*workload.Workload, *v1alpha1.AttuneRecommendation, *policy.Settings)
		want   recommender.Amount
	}{
		"a Deployment": {func(*workload.Workload, *v1alpha1.AttuneRecommendation, *policy.Settings) {}, 900},
		"a CronJob": {func(w *workload.Workload, _ *v1alpha1.AttuneRecommendation, _ *policy.Settings) {
			w.Kind = v1alpha1.KindCronJob
		}, 0},
		"a Job": {func(w *workload.Workload, _ *v1alpha1.AttuneRecommendation, _ *policy.Settings) {
			w.Kind = v1alpha1.KindJob
		}, 0},
		"strategy Node": {func(_ *workload.Workload, rec *v1alpha1.AttuneRecommendation, _ *policy.Settings) {
			rec.Spec.Strategy = v1alpha1.StrategyNode
		}, 0},
		"paused by a person": {func(w *workload.Workload, _ *v1alpha1.AttuneRecommendation, _ *policy.Settings) {
			w.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"}
		}, 0},
		"paused by itself": {func(_ *workload.Workload, rec *v1alpha1.AttuneRecommendation, _ *policy.Settings) {
			rec.Status.Paused = &v1alpha1.PausedState{Reason: "another writer"}
		}, 0},
		"the policy is paused": {func(_ *workload.Workload, _ *v1alpha1.AttuneRecommendation, s *policy.Settings) {
			s.Resize.Paused = []string{"the policy"}
		}, 0},
		"skipped": {func(w *workload.Workload, _ *v1alpha1.AttuneRecommendation, _ *policy.Settings) {
			w.Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"}
		}, 0},
	}
	size := func(millicores recommender.Amount) recommender.Size {
		return recommender.Size{recommender.CPU: {Request: millicores}}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			settings := initialSettings(t)
			settings.Recommender.Of[recommender.CPU].AllowDecrease = true
			w := workload.Workload{
				Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web"}, Replicas: 3,
				Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: podview.ToRequirements(size(500))}}}},
			}
			rec := v1alpha1.AttuneRecommendation{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-web"},
				Spec:       v1alpha1.AttuneRecommendationSpec{Containers: []v1alpha1.ContainerTarget{{Name: "app", Target: podview.ToResources(size(200))}}},
			}
			c.change(&w, &rec, &settings)
			got := saved(report{settings: settings, matched: matched{won: []workload.Workload{w}}, recommendations: []v1alpha1.AttuneRecommendation{rec}})
			assert.Equal(t, answers.SavedAmounts{c.want, 0}, got)
			assert.Equal(t, answers.View{Recommendation: &rec, Workload: w, Settings: &settings}.Compute().Available, got, "the plugin")
		})
	}
}
