package targets

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// keeping is a View whose CPU has a range.
func keeping(t *testing.T, least, most recommender.Amount) View {
	v := sizing(t, nil)
	v.Settings.Recommender.Of[recommender.CPU].KeepReplicas = true
	v.Kept = func(_ string, r recommender.Resource) *autoscale.Proof {
		if r == recommender.Memory {
			return nil
		}
		return &autoscale.Proof{
			Kept:   recommender.Kept{Least: least, Most: most, By: "HorizontalPodAutoscaler web", Reason: "HPA"},
			Stored: v1alpha1.KeptRequest{Resource: "cpu", Least: podview.Quantity(r, least), Most: podview.ToPointer(r, most), ValidUntil: metav1.NewTime(now)},
		}
	}
	return v
}

// TestKeptRangeLimitsTargetAndSeed: both are within the range, which is stored with the target. A boost is not given.
func TestKeptRangeLimitsTargetAndSeed(t *testing.T) {
	v := keeping(t, 400, 0)
	v.Settings.StartupBoost = &policy.Boost{Multiplier: 2}
	spec := Desired(v)
	assert.Equal(t, "400m", text(spec.Containers[0].Target.CPURequest))
	assert.Equal(t, "400m", text(spec.Seed.Containers[0].CPURequest))
	assert.Nil(t, spec.Seed.Containers[0].CPUBoost, "an HPA would count it")
	require.Len(t, spec.Containers[0].Kept, 1)
	assert.Equal(t, "400m", spec.Containers[0].Kept[0].Least.String())

	v.Settings.Recommender.Of[recommender.CPU].MaxAllowed = 300
	spec = Desired(v)
	assert.Empty(t, spec.Containers[0].Kept, "a resource that is blocked has no range")
	assert.Nil(t, spec.Seed.Containers[0].CPURequest)
	assert.EqualValues(t, "HPA", spec.Containers[0].Holds[0].Reason)

	v = keeping(t, 400, 0)
	v.Settings.Strategy = v1alpha1.StrategyNode
	v.History.Highest = func(string, recommender.Resource) node.Span {
		return func(time.Time, time.Time) (recommender.Usage, bool) { return 0, false }
	}
	assert.Empty(t, Desired(v).Containers[0].Kept)
}

// TestKeptRangeTakesPrecedenceOverVerifiedSizes: a verified size may be older than the range.
func TestKeptRangeTakesPrecedenceOverVerifiedSizes(t *testing.T) {
	for name, c := range map[string]struct {
		least, most recommender.Amount
		verified    string
		want        string
	}{
		"within":     {200, 0, "300m", "300m"},
		"below":      {400, 0, "300m", "400m"},
		"above":      {100, 260, "300m", ""},
		"unverified": {400, 0, "", "400m"},
	} {
		t.Run(name, func(t *testing.T) {
			v := keeping(t, c.least, c.most)
			v.Settings.Resize.Mode = v1alpha1.UpdateAuto
			if c.verified != "" {
				size := v1alpha1.VerifiedResources{Name: "app"}
				amount := resource.MustParse(c.verified)
				size.Size.CPURequest = &amount
				v.Status.Verified = []v1alpha1.VerifiedResources{size}
			}
			assert.Equal(t, c.want, text(Desired(v).Seed.Containers[0].CPURequest))
		})
	}
}

// TestKeptRangeIsWrittenWhenItChanges: the time of the proof alone is no reason to write.
func TestKeptRangeIsWrittenWhenItChanges(t *testing.T) {
	stored := Desired(keeping(t, 400, 0))
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Spec: stored}
	later := *stored.DeepCopy()
	later.Containers[0].Kept[0].ValidUntil = metav1.NewTime(now.AddDate(0, 0, 1))
	assert.False(t, WorthWriting(rec, later, now))
	later.Containers[0].Kept[0].Digest = "other"
	assert.True(t, WorthWriting(rec, later, now))
}

// TestDampKeepsNoTargetOutsideTheRange: a target that would fall a little stays only where it is within the range.
func TestDampKeepsNoTargetOutsideTheRange(t *testing.T) {
	v := keeping(t, 100, 242)
	v.Stored = Desired(keeping(t, 100, 0))
	amount := resource.MustParse("243m")
	v.Stored.Containers[0].Target.CPURequest = &amount
	assert.Equal(t, "240m", text(Desired(v).Containers[0].Target.CPURequest))
	v.Kept = keeping(t, 100, 0).Kept
	assert.Equal(t, "243m", text(Desired(v).Containers[0].Target.CPURequest))
}
