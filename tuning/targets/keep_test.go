package targets

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

// A new leader has not read the history yet. The stored targets stay until it has.
func TestRecommendationsAreCarriedOverWhileThePastIsRead(t *testing.T) {
	cpu := resource.MustParse("100m")
	stored := v1alpha1.AttuneRecommendationSpec{
		Policy: v1alpha1.PolicyRef{UID: "p", Generation: 1}, Mode: v1alpha1.UpdateAuto, SettingsDigest: "d",
		Containers: []v1alpha1.ContainerTarget{{Name: "app", Target: v1alpha1.Resources{CPURequest: &cpu}}},
		DataUntil:  &metav1.Time{Time: today},
	}
	stored.Seed, _ = seed(auto(v1alpha1.AttuneRecommendationStatus{}), stored.Containers)
	stored.Seed.ValidUntil = metav1.Time{Time: today.Add(time.Hour)}
	empty := func(change func(*v1alpha1.AttuneRecommendationSpec)) v1alpha1.AttuneRecommendationSpec {
		spec := v1alpha1.AttuneRecommendationSpec{
			Policy: v1alpha1.PolicyRef{UID: "p", Generation: 2}, Mode: v1alpha1.UpdateAuto, SettingsDigest: "d",
			Containers: []v1alpha1.ContainerTarget{{Name: "app", Holds: []v1alpha1.Hold{
				{Resource: "cpu", Reason: "NoData"}, {Resource: "memory", Reason: "NoData"},
			}}},
			SeedBlocked: "Blocked",
		}
		change(&spec)
		return spec
	}
	tests := map[string]struct {
		change func(*v1alpha1.AttuneRecommendationSpec)
		floors []v1alpha1.Floor
		kept   bool
	}{
		"nothing but the past is missing": {func(*v1alpha1.AttuneRecommendationSpec) {}, nil, true},
		"paused":                          {func(s *v1alpha1.AttuneRecommendationSpec) { s.SeedBlocked = "Paused" }, nil, false},
		"another mode":                    {func(s *v1alpha1.AttuneRecommendationSpec) { s.Mode = v1alpha1.UpdateInitial }, nil, false},
		"other settings":                  {func(s *v1alpha1.AttuneRecommendationSpec) { s.SettingsDigest = "e" }, nil, false},
		"another policy":                  {func(s *v1alpha1.AttuneRecommendationSpec) { s.Policy.UID = "q" }, nil, false},
		"an HPA came": {func(s *v1alpha1.AttuneRecommendationSpec) {
			s.Containers[0].Holds = append(s.Containers[0].Holds, v1alpha1.Hold{Resource: "cpu", Reason: "HPA"})
		}, nil, false},
		"a container came": {func(s *v1alpha1.AttuneRecommendationSpec) {
			s.Containers = append(s.Containers, v1alpha1.ContainerTarget{Name: "sidecar"})
		}, nil, false},
		"a floor above the target": {func(*v1alpha1.AttuneRecommendationSpec) {},
			[]v1alpha1.Floor{{Container: "app", Resource: "cpu", Amount: resource.MustParse("150m"), LearnedAt: metav1.Time{Time: today}}}, false},
		"a floor below it": {func(*v1alpha1.AttuneRecommendationSpec) {},
			[]v1alpha1.Floor{{Container: "app", Resource: "cpu", Amount: resource.MustParse("50m"), LearnedAt: metav1.Time{Time: today}}}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			wanted := empty(test.change)
			v := auto(v1alpha1.AttuneRecommendationStatus{Floors: test.floors})
			got := keepDuringBackfill(stored, wanted, v)
			if !test.kept {
				assert.Equal(t, wanted, got)
				return
			}
			assert.Equal(t, stored.Seed, got.Seed)
			assert.Equal(t, stored.Containers, got.Containers)
			assert.Equal(t, stored.DataUntil, got.DataUntil, "its age keeps counting")
			assert.EqualValues(t, 2, got.Policy.Generation)
		})
	}
}

// auto returns a workload of a policy that sizes running and new pods.
func auto(status v1alpha1.AttuneRecommendationStatus) View {
	v := View{Now: today, Status: status}
	v.Settings.Resize.Mode = v1alpha1.UpdateAuto
	return v
}

// The seed follows changes while the history is read.
func TestASeedIsNotFrozenWhileThePastIsRead(t *testing.T) {
	cpu, kept := resource.MustParse("100m"), resource.MustParse("60m")
	stored := v1alpha1.AttuneRecommendationSpec{
		Mode:       v1alpha1.UpdateAuto,
		Containers: []v1alpha1.ContainerTarget{{Name: "app", Target: v1alpha1.Resources{CPURequest: &cpu}}},
	}
	stored.Seed, _ = seed(auto(v1alpha1.AttuneRecommendationStatus{}), stored.Containers)
	require.True(t, stored.Seed.RaiseOnly)
	wanted := v1alpha1.AttuneRecommendationSpec{
		Mode: v1alpha1.UpdateAuto, Containers: []v1alpha1.ContainerTarget{{Name: "app"}}, SeedBlocked: seedAllBlocked,
	}

	survived := keepDuringBackfill(stored, wanted, auto(v1alpha1.AttuneRecommendationStatus{
		Verified: []v1alpha1.VerifiedResources{{Name: "app", Size: v1alpha1.Resources{CPURequest: &kept}}},
	}))
	require.NotNil(t, survived.Seed)
	assert.False(t, survived.Seed.RaiseOnly)
	assert.True(t, kept.Equal(*survived.Seed.Containers[0].CPURequest))

	// A restart must not lose the targets of a policy with admission: Disabled.
	off := auto(v1alpha1.AttuneRecommendationStatus{})
	off.Settings.Admission = v1alpha1.Disabled
	without := wanted
	without.SeedBlocked = v1alpha1.ReasonAdmissionDisabled
	running := keepDuringBackfill(stored, without, off)
	assert.Equal(t, stored.Containers, running.Containers)
	assert.Nil(t, running.Seed)
	assert.Equal(t, v1alpha1.ReasonAdmissionDisabled, running.SeedBlocked)

	harmed := keepDuringBackfill(stored, wanted, auto(v1alpha1.AttuneRecommendationStatus{BadSeeds: []string{stored.Seed.Revision}}))
	assert.Nil(t, harmed.Seed)
	assert.Equal(t, "SeedMarkedBad", harmed.SeedBlocked)
	assert.Equal(t, stored.Containers, harmed.Containers)
}

// Only another workload's history is still being read. The first target of this one is not delayed by its empty
// stored spec.
func TestNothingIsCarriedOverWhereNothingWasRecommended(t *testing.T) {
	cpu := resource.MustParse("100m")
	stored := v1alpha1.AttuneRecommendationSpec{
		Mode:        v1alpha1.UpdateAuto,
		Containers:  []v1alpha1.ContainerTarget{{Name: "app", Holds: []v1alpha1.Hold{{Resource: "cpu", Reason: "NoData"}}}},
		SeedBlocked: "Blocked",
	}
	wanted := v1alpha1.AttuneRecommendationSpec{
		Mode:       v1alpha1.UpdateAuto,
		Containers: []v1alpha1.ContainerTarget{{Name: "app", Target: v1alpha1.Resources{CPURequest: &cpu}}},
		Seed:       &v1alpha1.Seed{Revision: "r"},
	}
	assert.Equal(t, wanted, keepDuringBackfill(stored, wanted, View{Now: today}))
}
