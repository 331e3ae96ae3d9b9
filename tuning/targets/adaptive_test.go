package targets

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/adaptive"
)

// adaptiveView returns a workload whose container was busy by day and idle by night for a week.
func adaptiveView(t *testing.T) View {
	t.Helper()
	spec := v1alpha1.AttunePolicySpec{TargetRef: v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Name: "web"}}
	spec.Strategy, spec.UpdateStrategy = ptr.To(v1alpha1.StrategyAdaptive), &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateInitial)}
	p := &v1alpha1.AttunePolicy{Spec: spec}
	settings, err := policy.Resolve(nil, nil, p)
	require.NoError(t, err)
	var steps []recommender.StepUsage
	for i := range 7 * 288 {
		at := today.Add(-7*24*time.Hour + time.Duration(i+1)*5*time.Minute)
		busy := 1 + math.Sin(float64(at.Hour())*math.Pi/12)
		steps = append(steps, recommender.StepUsage{At: at, CPUCores: 0.1 + 0.2*busy, MemoryBytes: 2e8 + 1e8*busy})
	}
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "app",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi"),
		}},
	}}}}
	return View{
		Workload: workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Name: "web"}, Template: template},
		Policy:   p, Settings: settings, Now: today, Explained: true,
		Blocked: func(string, recommender.Resource) *recommender.Hold { return nil },
		History: History{
			Profiles:  map[string]recommender.Profile{"app": recommender.NewProfile(steps, 5*time.Minute)},
			Estimates: map[string]*[2]recommender.Estimate{"app": adaptive.Of(steps, settings.Recommender)},
		},
	}
}

// The spec names the strategy and has its steps. The seed is the target.
func TestAdaptiveTargets(t *testing.T) {
	v := adaptiveView(t)
	spec := Desired(v)
	assert.Equal(t, v1alpha1.StrategyAdaptive, spec.Strategy)
	require.Len(t, spec.Containers, 1)
	var names []string
	for _, s := range spec.Containers[0].Steps {
		names = append(names, s.Resource+" "+s.Name)
	}
	assert.Equal(t, []string{"cpu adaptive", "cpu floor", "cpu bounds", "memory adaptive", "memory floor", "memory bounds"}, names)
	target := spec.Containers[0].Target
	assert.Equal(t, spec.Containers[0].Steps[2].After, target.CPURequest.String())
	assert.Greater(t, target.CPURequest.MilliValue(), int64(400), "it is busy by day")
	assert.Less(t, target.CPURequest.MilliValue(), int64(1000))
	require.NotNil(t, spec.Seed)
	assert.Equal(t, target.CPURequest.String(), spec.Seed.Containers[0].CPURequest.String())
}

// Without estimates nothing is recommended.
func TestAdaptiveWithoutEstimates(t *testing.T) {
	v := adaptiveView(t)
	v.History.Estimates = nil
	spec := Desired(v)
	assert.Nil(t, spec.Containers[0].Target.CPURequest)
	assert.Equal(t, string(recommender.NoData), spec.Containers[0].Holds[0].Reason)
	assert.Nil(t, spec.Seed)
}
