package targets

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// with returns the view with a changed policy.
func (v View) with(t *testing.T, change func(*v1alpha1.AttunePolicySpec)) View {
	t.Helper()
	v.Policy = v.Policy.DeepCopy()
	change(&v.Policy.Spec)
	settings, err := policy.Resolve(nil, nil, v.Policy)
	require.NoError(t, err)
	v.Settings = settings
	return v
}

func mode(of v1alpha1.UpdateType) func(*v1alpha1.AttunePolicySpec) {
	return func(s *v1alpha1.AttunePolicySpec) {
		s.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr.To(of)}
	}
}

func raisedOnly(s *v1alpha1.Seed) map[string]bool {
	out := map[string]bool{}
	for _, c := range s.Containers {
		out[c.Name] = c.RaiseOnly
	}
	return out
}

// A size that no running pod has survived lowers no new pod, whatever sizes of other containers are verified.
func TestAContainerWithoutAKeptSizeIsSeededAsARaise(t *testing.T) {
	kept := func(name string, cpu recommender.Amount) v1alpha1.VerifiedResources {
		size := podview.ToResources(recommender.Size{recommender.CPU: {Request: cpu}})
		return v1alpha1.VerifiedResources{Name: name, Size: size, Promoted: &size, Since: metav1.NewTime(now)}
	}
	for _, of := range []v1alpha1.UpdateType{v1alpha1.UpdateCanary, v1alpha1.UpdateAuto, v1alpha1.UpdateInitial} {
		t.Run(string(of), func(t *testing.T) {
			v := sizing(t, nil).with(t, func(s *v1alpha1.AttunePolicySpec) {
				mode(of)(s)
				s.UpdateStrategy.Canary = &v1alpha1.CanarySettings{AutoPromote: ptr.To(of == v1alpha1.UpdateAuto)}
			})
			v.Workload.Template.Spec.Containers = append(v.Workload.Template.Spec.Containers,
				corev1.Container{Name: "side", Resources: v.Workload.Template.Spec.Containers[0].Resources})
			v.History.Profiles["side"] = v.History.Profiles["app"]
			proven := of != v1alpha1.UpdateInitial

			first := Desired(v).Seed
			require.NotNil(t, first)
			assert.Equal(t, map[string]bool{"app": proven, "side": proven}, raisedOnly(first), "nothing is kept")
			assert.Equal(t, proven, first.RaiseOnly, "what a webhook of the former version reads")

			v.Status.Verified = []v1alpha1.VerifiedResources{kept("app", 500)}
			second := Desired(v).Seed
			require.NotNil(t, second)
			assert.Equal(t, map[string]bool{"app": false, "side": proven}, raisedOnly(second), "app is kept")
			assert.False(t, second.RaiseOnly)

			v.Status.Verified = []v1alpha1.VerifiedResources{kept("side", 500)}
			dropped := Desired(v).Seed
			require.NotNil(t, dropped)
			assert.Equal(t, map[string]bool{"app": proven, "side": false}, raisedOnly(dropped), "app's was dropped after harm")

			v.Status.Verified = []v1alpha1.VerifiedResources{kept("app", 500), kept("side", 500)}
			both := Desired(v).Seed
			require.NotNil(t, both)
			assert.Equal(t, map[string]bool{"app": false, "side": false}, raisedOnly(both))
		})
	}
}

// The policy's bounds may be newer than a verified size or the seed of a silent source.
func TestAKeptSizeIsSeededWithinTheBounds(t *testing.T) {
	for name, c := range map[string]struct{ low, high, kept, want string }{
		"below the minimum": {"500m", "", "100m", "500m"},
		"above the maximum": {"", "300m", "900m", "300m"},
		"between":           {"100m", "1", "500m", "500m"},
		"no bounds":         {"", "", "50m", "50m"},
	} {
		t.Run(name, func(t *testing.T) {
			bound := func(s string) *resource.Quantity {
				if s == "" {
					return nil
				}
				return ptr.To(resource.MustParse(s))
			}
			v := sizing(t, nil).with(t, func(s *v1alpha1.AttunePolicySpec) {
				mode(v1alpha1.UpdateAuto)(s)
				s.CPU = &v1alpha1.CPUSettings{}
				s.CPU.MinAllowed, s.CPU.MaxAllowed = bound(c.low), bound(c.high)
			})
			v.Status.Verified = []v1alpha1.VerifiedResources{{Name: "app", Size: v1alpha1.Resources{CPURequest: bound(c.kept)}}}
			seed := Desired(v).Seed
			require.NotNil(t, seed)
			assert.Equal(t, c.want, seed.Containers[0].CPURequest.String())
			stands := seeder{View: v}.upToDate(v1alpha1.ContainerSeed{Name: "app", CPURequest: bound(c.kept)})
			assert.Equal(t, c.want, stands.CPURequest.String())
			assert.Nil(t, stands.MemoryRequest, "what it does not give it goes on not to give")
		})
	}
}

// Floors learned since a source became silent apply to the stored seed.
func TestWhatStandsIsNotBelowFloors(t *testing.T) {
	v := sizing(t, nil, v1alpha1.Floor{Container: "app", Resource: "cpu", Reason: "throttle", Amount: resource.MustParse("400m"), LearnedAt: metav1.NewTime(now)})
	stands := seeder{View: v}.upToDate(v1alpha1.ContainerSeed{Name: "app", CPURequest: ptr.To(resource.MustParse("100m")), MemoryRequest: ptr.To(resource.MustParse("64Mi"))})
	assert.Equal(t, "400m", stands.CPURequest.String())
	assert.Equal(t, "64Mi", stands.MemoryRequest.String())
}

func TestNoSeedsOfAWorkloadThatIsTooLarge(t *testing.T) {
	v := sizing(t, nil).with(t, mode(v1alpha1.UpdateAuto))
	require.NotNil(t, Desired(v).Seed)
	v.Workload.Annotations = map[string]string{workload.TooLargeAnnotation: "true"}
	after := Desired(v)
	assert.Nil(t, after.Seed)
	assert.Equal(t, "TooLarge", after.SeedBlocked)
}

// admission: Disabled withdraws the seed. Targets, and with them the resizes of running pods, stay the same.
func TestDisabledAdmissionHasNoSeedAndTheSameTargets(t *testing.T) {
	for _, of := range []v1alpha1.UpdateType{v1alpha1.UpdateInitial, v1alpha1.UpdateCanary, v1alpha1.UpdateAuto} {
		v := sizing(t, nil).with(t, mode(of))
		enabled := Desired(v)
		require.NotNil(t, enabled.Seed)
		v.Stored = enabled
		v.Settings.Admission = v1alpha1.Disabled
		disabled := Desired(v)
		assert.Nil(t, disabled.Seed)
		assert.Equal(t, "AdmissionDisabled", disabled.SeedBlocked)
		assert.Equal(t, enabled.Containers, disabled.Containers, of)
		assert.Equal(t, enabled.SettingsDigest, disabled.SettingsDigest)
		v.Stored, v.Settings.Admission = disabled, v1alpha1.Enabled
		assert.Equal(t, enabled.Seed, Desired(v).Seed, "enabled again")
	}
	v := sizing(t, nil).with(t, mode(v1alpha1.UpdateRecommend))
	v.Settings.Admission = v1alpha1.Disabled
	assert.Equal(t, "ModeRecommend", Desired(v).SeedBlocked, "the mode is the first reason")
}

// Mode Observe stores the progress of the data, and no targets.
func TestObserveHasNoTargets(t *testing.T) {
	v := sizing(t, nil).with(t, mode(v1alpha1.UpdateObserve))
	v.Explained = true
	spec := Desired(v)
	require.Len(t, spec.Containers, 1)
	assert.Equal(t, v1alpha1.ContainerTarget{Name: "app", Confidence: "1.00", DataPoints: 2017}, spec.Containers[0])
	assert.Nil(t, spec.Seed)
	assert.Equal(t, "ModeObserve", spec.SeedBlocked)
}

// Kueue counts the requests of a Job's template, and older versions of it do not mark the pods.
func TestJobsInAKueueQueueHaveNoSeed(t *testing.T) {
	label := map[string]string{workload.KueueQueue: "team-a"}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Labels: label}}
	cron := &batchv1.CronJob{}
	cron.Spec.JobTemplate.Labels = label
	for _, object := range []runtime.Object{job, cron} {
		trimmed, err := trim.Object(object.DeepCopyObject())
		require.NoError(t, err)
		for _, o := range []runtime.Object{object, trimmed.(runtime.Object)} {
			of, _ := workload.From(o)
			assert.Equal(t, "team-a", of.Queue)
		}
	}
	v := sizing(t, nil).with(t, mode(v1alpha1.UpdateInitial))
	require.NotNil(t, Desired(v).Seed)
	v.Workload.Queue = "team-a"
	spec := Desired(v)
	assert.Nil(t, spec.Seed)
	assert.Equal(t, resize.ReasonQueue, spec.SeedBlocked)
}
