package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// If a floor is newer than the stored target, no resize goes below the floor. A floor alone raises nothing.
func TestNoStepGoesBelowAFloorThatIsYoungerThanTheTarget(t *testing.T) {
	floor := func(r recommender.Resource, amount recommender.Amount) v1alpha1.Floor {
		return v1alpha1.Floor{Container: "app", Resource: r.String(), Amount: podview.Quantity(r, amount), Reason: "throttle", LearnedAt: metav1.NewTime(now)}
	}
	live := sizeOf(1000, 0, 1024, 0)
	for name, tc := range map[string]struct {
		floors []v1alpha1.Floor
		target recommender.Size
		want   recommender.Size
	}{
		"nothing was learned":       {nil, sizeOf(200, 0, 256, 0), sizeOf(200, 0, 256, 0)},
		"of CPU":                    {[]v1alpha1.Floor{floor(recommender.CPU, 600)}, sizeOf(200, 0, 256, 0), sizeOf(600, 0, 256, 0)},
		"of memory":                 {[]v1alpha1.Floor{floor(recommender.Memory, 512*mi)}, sizeOf(200, 0, 256, 0), sizeOf(200, 0, 512, 0)},
		"above what it has":         {[]v1alpha1.Floor{floor(recommender.CPU, 4000)}, sizeOf(200, 0, 256, 0), sizeOf(1000, 0, 256, 0)},
		"the target is above it":    {[]v1alpha1.Floor{floor(recommender.CPU, 100)}, sizeOf(200, 0, 256, 0), sizeOf(200, 0, 256, 0)},
		"the target is a raise":     {[]v1alpha1.Floor{floor(recommender.CPU, 4000)}, sizeOf(2000, 0, 256, 0), sizeOf(2000, 0, 256, 0)},
		"a resource that is held":   {[]v1alpha1.Floor{floor(recommender.CPU, 600)}, sizeOf(0, 0, 256, 0), sizeOf(1000, 0, 256, 0)},
		"of another container only": {[]v1alpha1.Floor{{Container: "side", Resource: "cpu", Amount: podview.Quantity(recommender.CPU, 600), LearnedAt: metav1.NewTime(now)}}, sizeOf(200, 0, 256, 0), sizeOf(200, 0, 256, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			pod := running("web-1", live)
			w := eager(heading(seen(t, live, pod), tc.target))
			wishes := tuning.NewPass(w, v1alpha1.AttuneRecommendationStatus{Floors: tc.floors}).Wishes(pod)
			require.Len(t, wishes, 1)
			assert.Equal(t, tc.want, wishes[0].Size)
		})
	}
}

// Floors outlive the strategy and the server of a policy. So a policy's server teaches none above the prior size under any
// strategy, also while a deleted policy's resizes are still observed.
func TestAPolicysServerTeachesNoMoreThanThePriorSize(t *testing.T) {
	learned := func(ofPolicy bool) recommender.Amount {
		w := judged(t)
		harms[resize.HarmThrottle](&w)
		w.Policy.Settings.Source.OfPolicy = ofPolicy
		floors := tuning.Decide(w).Status.Floors
		require.Len(t, floors, 1)
		return podview.AmountOf(recommender.CPU, floors[0].Amount)
	}
	assert.EqualValues(t, 520, learned(false), "1.3 times the limit")
	assert.EqualValues(t, 500, learned(true))
}

// A runtime class with a memory overhead runs a VM, which may not start with a lower limit: a running pod keeps the memory
// limit of its template, and its request follows usage.
func TestSandboxesKeepTheirMemoryLimit(t *testing.T) {
	has := sizeOf(200, 0, 256, 1024)
	for overhead, kept := range map[string]bool{"0": false, "160Mi": true} {
		pod := running("web-1", has)
		pod.Spec.Overhead = corev1.ResourceList{"memory": resource.MustParse(overhead)}
		w := heading(seen(t, has, pod), sizeOf(200, 0, 64, 256))
		memorySettings := &w.Policy.Settings.Recommender.Of[recommender.Memory]
		memorySettings.AllowDecrease, memorySettings.LimitsFollow = true, true
		w.Rec.Status.Originals = createdWith(pod, has)
		wishes := tuning.NewPass(w, w.Rec.Status).Wishes(pod)
		require.Len(t, wishes, 1)
		memory := wishes[0].Size[recommender.Memory]
		assert.Less(t, memory.Request, recommender.Amount(256*mi))
		assert.Equal(t, kept, memory.Limit == 1024*mi, overhead)
	}
}

// What usage needs lowers no limit further, and raises none above the original limit and maxAllowed. An OOM kill does.
func TestRunningPodsKeepTheLimitThatUsageNeeds(t *testing.T) {
	original := sizeOf(500, 2000, 256, 512)
	next := func(has recommender.Size, floors []v1alpha1.Floor) [2]recommender.Amount {
		pod := running("web-1", has)
		w := heading(seen(t, has, pod), sizeOf(500, 2000, 300, 600))
		w.Rec.Spec.Containers[0].CPULimitFloor = ptr.To(resource.MustParse("3850m"))
		w.Rec.Spec.Containers[0].MemoryLimitFloor = ptr.To(resource.MustParse("1300Mi"))
		for r, most := range [2]recommender.Amount{1500, 700 * mi} {
			of := &w.Policy.Settings.Recommender.Of[r]
			of.LimitsFollow, of.AllowDecrease, of.MaxAllowed = true, true, most
		}
		w.Rec.Status.Originals, w.Rec.Status.Floors = createdWith(pod, original), floors
		wishes := tuning.NewPass(w, w.Rec.Status).Wishes(pod)
		require.Len(t, wishes, 1)
		return [2]recommender.Amount{wishes[0].Size[recommender.CPU].Limit, wishes[0].Size[recommender.Memory].Limit / mi}
	}
	assert.Equal(t, [2]recommender.Amount{3850, 1300}, next(sizeOf(1000, 4000, 600, 2048), nil), "not lowered further")
	assert.Equal(t, [2]recommender.Amount{2000, 700}, next(sizeOf(500, 2000, 256, 512), nil), "not raised further")
	assert.Equal(t, [2]recommender.Amount{2000, 1300}, next(sizeOf(500, 2000, 256, 512), killedAt(1024)), "killed")
}

// What a rolled-back release taught does not size the release before it, once no pod of it lives and the rollout has
// ended.
func TestRolledBackReleaseLeavesNoFloor(t *testing.T) {
	for _, rolling := range []bool{false, true} {
		pod := running("web-1", sizeOf(200, 0, 256, 512))
		w := heading(seen(t, sizeOf(200, 0, 256, 512), pod), sizeOf(200, 0, 256, 512))
		w.Workload.Rollout.InProgress = rolling
		status := w.Rec.Status
		status.Originals = createdWith(pod, sizeOf(200, 0, 256, 512))
		status.Originals[0].Since = &metav1.Time{Time: now.Add(-48 * time.Hour)}
		status.Originals = append(status.Originals, v1alpha1.Originals{TemplateHash: "bad", Since: &metav1.Time{Time: now.Add(-time.Hour)}})
		status.Floors = []v1alpha1.Floor{{Container: "app", Resource: "memory", Amount: resource.MustParse("10Gi"), Reason: "oomkill",
			LearnedAt: metav1.NewTime(now.Add(-40 * time.Minute)), TemplateHash: "bad"}}
		p := tuning.NewPass(w, status)
		p.Learn()
		assert.Equal(t, rolling, len(p.Status().Floors) > 0)
	}
}
