package targets

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
)

// retargeting is a View of a container with a target of 240m, whose HPA scales at some percent of a request.
func retargeting(t *testing.T, percent int32, request string, may bool) View {
	v := sizing(t, nil)
	v.Settings.Recommender.Of[recommender.CPU].KeepReplicas, v.Settings.Recommender.Of[recommender.CPU].Retarget = true, true
	v.Explained = true
	v.Workload.Template = v.Workload.Template.DeepCopy()
	v.Workload.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(request)
	hpa := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	hpa.Spec.MaxReplicas = 20
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: v.Workload.Name}
	hpa.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
	}}}
	holds := autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa}, MayRetarget: may}.Of(v.Workload)
	original, _ := strconv.ParseFloat(strings.TrimSuffix(request, "m"), 64)
	threshold := float64(percent) * original / 100 // which the usage of 9 pods almost reached
	past := autoscale.Past{Since: now.Add(-7 * 24 * time.Hour), Until: now, Window: 7 * 24 * time.Hour, Spans: []replicas.Span{
		{Ready: 9, Least: 0.98 * threshold, Greatest: threshold, LeastAt: now.Unix(), GreatestAt: now.Unix()},
	}}
	holds = holds.Keep(SizedNames(v.Workload.Template, v.Settings), nil, autoscale.Fleet{
		Keeps: v.Settings.KeepsReplicas, Retargets: v.Settings.Retargets, Pods: []*corev1.Pod{{Spec: v.Workload.Template.Spec}},
		Original: OriginalRequests(v), Read: true, Now: now,
		Past: func(string, recommender.Resource) autoscale.Past { return past },
	})
	v.Blocked, v.Kept, v.Proposed, v.HPABindings = holds.On, holds.Kept, holds.Proposed, holds.Stored()
	return v
}

func hpaStep(t v1alpha1.ContainerTarget) string {
	return podview.First(t.Steps, func(s v1alpha1.Step) bool { return s.Resource == "cpu" && s.Name == "hpa" }).Reason
}

// TestRetargetExplainsTheTarget: the step hpa says which target belongs to the request, and what limited the request.
func TestRetargetExplainsTheTarget(t *testing.T) {
	for name, c := range map[string]struct {
		percent       int32
		request, want string
		target        int32
		says          string
	}{
		"within":    {50, "300m", "240m", 63, "HorizontalPodAutoscaler web: target 50 % -> 63 %, so that it still scales at 150m per pod"},
		"unchanged": {50, "240m", "240m", 0, "HorizontalPodAutoscaler web: target 50 % does not change: it scales at 120m per pod"},
		"below": {70, "500m", "389m", 90, "raised to 389m: with less, HorizontalPodAutoscaler web would have asked for 10 replicas instead of 9 at " +
			now.Format("2006-01-02 15:04 UTC") + "; the margin is 20 %. " +
			"HorizontalPodAutoscaler web: target 70 % -> 90 %, so that it still scales at 350m per pod"},
		"above": {60, "100m", "200m", 30, "lowered to 200m: with more, HorizontalPodAutoscaler web would have asked for 8 replicas instead of 9 at " +
			now.Format("2006-01-02 15:04 UTC") + "; the margin is 20 %. " +
			"HorizontalPodAutoscaler web: target 60 % -> 30 %, so that it still scales at 60m per pod"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := Desired(retargeting(t, c.percent, c.request, true))
			require.Empty(t, spec.Containers[0].Holds)
			assert.Equal(t, c.want, text(spec.Containers[0].Target.CPURequest))
			assert.Equal(t, c.says, hpaStep(spec.Containers[0]))
			assert.Equal(t, c.want, text(spec.Seed.Containers[0].CPURequest), "new pods get it")
			require.Len(t, spec.Containers[0].Kept, 1)
			assert.Equal(t, v1alpha1.HPARetarget, spec.Containers[0].Kept[0].By)
			assert.Equal(t, c.target, spec.HPABindings[0].RecommendedPercent, "for manifests")
		})
	}
}

// TestRetargetRecommendsATargetThatItMayNotWrite: the request stays blocked, and both belong together.
func TestRetargetRecommendsATargetThatItMayNotWrite(t *testing.T) {
	spec := Desired(retargeting(t, 70, "500m", false))
	require.Len(t, spec.Containers[0].Holds, 1)
	assert.Contains(t, spec.Containers[0].Holds[0].Message, "Set the chart value hpa.retarget: true")
	assert.Equal(t, "389m", text(spec.Containers[0].Target.CPURequest))
	assert.Nil(t, spec.Seed.Containers[0].CPURequest)
	assert.Empty(t, spec.Containers[0].Kept)
	assert.Equal(t, []v1alpha1.HPABinding{{HPA: "web", Resource: "cpu", Percent: 70, RecommendedPercent: 90, MinReplicas: 1, MaxReplicas: 20}}, spec.HPABindings)

	v := retargeting(t, 70, "500m", false)
	v.Settings.Resize.Mode = v1alpha1.UpdateObserve
	assert.Zero(t, Desired(v).HPABindings[0].RecommendedPercent)
}

// TestSeedHasTheRequestOfATargetThatCannotBeChanged: new pods get the request that belongs to the target, also with old data, unless
// a bound is against it.
func TestSeedHasTheRequestOfATargetThatCannotBeChanged(t *testing.T) {
	paired := func(change func(*View)) string {
		v := retargeting(t, 70, "500m", false)
		v.Paired = func(string, recommender.Resource) recommender.Amount { return 389 }
		if change != nil {
			change(&v)
		}
		if spec := Desired(v); spec.Seed != nil {
			return text(spec.Seed.Containers[0].CPURequest)
		}
		return "no seed"
	}
	assert.Equal(t, "389m", paired(nil))
	assert.Equal(t, "389m", paired(func(v *View) {
		v.Stored = Desired(*v)
		v.Now = v.Now.Add(48 * time.Hour)
		v.History.Silent = true
	}))
	const none = ""
	assert.Equal(t, none, paired(func(v *View) { v.Settings.Recommender.Of[recommender.CPU].MinAllowed = 450 }))
	assert.Equal(t, "240m", paired(func(v *View) {
		v.Blocked, v.Proposed = func(string, recommender.Resource) *recommender.Hold { return nil }, nil
	}), "nothing is blocked")
	assert.Equal(t, "no seed", paired(func(v *View) { v.Settings.Resize.Mode = v1alpha1.UpdateRecommend }))
}
