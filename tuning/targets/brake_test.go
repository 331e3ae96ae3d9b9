package targets

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/adaptive"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// atPart returns a workload that used a fraction of a limit for a week. Its template stays 512Mi.
func atPart(t *testing.T, limit recommender.Amount, part float64, edit func(*v1alpha1.AttunePolicySpec)) View {
	t.Helper()
	v := sizing(t, nil).with(t, edit)
	var steps []recommender.StepUsage
	for at := now.Add(-7 * 24 * time.Hour); !at.After(now); at = at.Add(5 * time.Minute) {
		steps = append(steps, recommender.StepUsage{At: at, CPUCores: 0.2, MemoryBytes: part * float64(limit)})
	}
	v.History.Profiles = map[string]recommender.Profile{"app": recommender.NewProfile(steps, 5*time.Minute)}
	if v.Settings.Recommender.Adapts() {
		estimates := adaptive.NewPast(v.Settings.Recommender).Estimates(steps)
		v.History.Estimates = map[string]*[2]recommender.Estimate{"app": &estimates}
	}
	v.History.Highest = func(_ string, r recommender.Resource) node.Span {
		return func(_, _ time.Time) (recommender.Usage, bool) {
			return []recommender.Usage{200, recommender.Usage(part * float64(limit))}[r], true
		}
	}
	return v
}

// The process uses a fraction of its limit: a heap by MaxRAMPercentage, a maxmemory, a buffer pool. Over many
// rollouts, no strategy creates a pod with more than twice the template's limit.
func TestRolloutsEndAtTheBrake(t *testing.T) {
	const mi = recommender.Amount(1 << 20)
	for _, strategy := range []v1alpha1.Strategy{v1alpha1.StrategyWorkload, v1alpha1.StrategyAdaptive, v1alpha1.StrategyNode} {
		for _, part := range []float64{0.75, 0.8, 0.93, 1} {
			t.Run(string(strategy), func(t *testing.T) {
				limit := 512 * mi
				var stored v1alpha1.AttuneRecommendationSpec
				for range 15 {
					v := atPart(t, limit, part, func(s *v1alpha1.AttunePolicySpec) { s.Strategy = &strategy })
					v.Stored = stored
					spec := Desired(v)
					stored = v1alpha1.AttuneRecommendationSpec{Containers: spec.Containers, Seed: spec.Seed}
					require.NotNil(t, spec.Seed)
					s := spec.Seed.Containers[0]
					require.NotNil(t, s.MemoryRequest)
					limit = max(limit, podview.FromPointer(recommender.Memory, s.MemoryRequest), podview.FromPointer(recommender.Memory, s.MemoryLimitFloor), podview.FromPointer(recommender.Memory, s.MemoryLimit))
					require.LessOrEqual(t, limit, 1024*mi)
				}
				if part >= 0.93 {
					assert.True(t, resize.HeldFor(stored.Containers[0].Holds, recommender.Memory, recommender.FollowsItsLimit))
				}
			})
		}
	}
}

// Under strategy Node, new pods of a template without a limit get one. It does not grow by usage that follows it: it
// ends at twice the first one. Usage of pods without the limit still counts.
func TestALimitOfOurOwnDoesNotFollowItself(t *testing.T) {
	const mi = recommender.Amount(1 << 20)
	byNode := func(s *v1alpha1.AttunePolicySpec) { s.Strategy = ptr.To(v1alpha1.StrategyNode) }
	limit, used := recommender.Amount(0), 100*mi
	var stored v1alpha1.AttuneRecommendationSpec
	rollout := func() {
		v := atPart(t, used, 1, byNode)
		v.Workload.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("64Mi")}}
		v.Stored = stored
		spec := Desired(v)
		stored = v1alpha1.AttuneRecommendationSpec{Containers: spec.Containers, Seed: spec.Seed}
		require.NotNil(t, spec.Seed)
		limit = podview.FromPointer(recommender.Memory, spec.Seed.Containers[0].MemoryLimit)
	}
	rollout()
	assert.Equal(t, 200*mi, limit)
	for range 10 {
		used = limit * 98 / 100
		rollout()
	}
	assert.Equal(t, 400*mi, limit)

	used = 900 * mi
	rollout()
	assert.Equal(t, 1800*mi, limit, "what pods without the limit used is demand")
}

// A size verified under a larger template does not raise limits above the ceiling of the current template. A size
// verified under the template's own limit does: new pods get no less than running ones.
func TestKeptSizesAreBraked(t *testing.T) {
	const mi = recommender.Amount(1 << 20)
	v := atPart(t, 512*mi, 0.9, mode(v1alpha1.UpdateAuto))
	v.Status.Verified = []v1alpha1.VerifiedResources{{Name: "app", Size: podview.ToResources(recommender.Size{{Request: 500}, {Request: 4096 * mi, Limit: 4096 * mi}})}}
	seed := Desired(v).Seed
	require.NotNil(t, seed)
	assert.Equal(t, "1Gi", seed.Containers[0].MemoryRequest.String())

	v.Status.Verified[0].TemplateHash = "now"
	limit := podview.ToPointer(recommender.Memory, 512*mi)
	v.Status.Originals = []v1alpha1.Originals{{TemplateHash: "now", Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: v1alpha1.Resources{MemoryRequest: limit, MemoryLimit: limit}}}}}
	assert.Equal(t, "4Gi", Desired(v).Seed.Containers[0].MemoryRequest.String())
}
