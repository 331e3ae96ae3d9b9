package targets

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

func (v View) of(kind v1alpha1.WorkloadKind) View {
	v.Workload.Identity = workload.Identity{Kind: kind, Namespace: "shop", Name: "web"}
	return v
}

func reasons(t v1alpha1.ContainerTarget) (out []string) {
	for _, h := range t.Holds {
		out = append(out, h.Resource+" "+h.Reason)
	}
	return out
}

// A workload without running pods sizes its next pod as long as its history lasts.
func TestAWorkloadThatDoesNotRunKeepsItsSeed(t *testing.T) {
	for name, tc := range map[string]struct {
		kind v1alpha1.WorkloadKind
		idle time.Duration
		hold bool
	}{
		"a CronJob, ten minutes after":       {v1alpha1.KindCronJob, 10 * time.Minute, false},
		"a CronJob, 25 minutes after":        {v1alpha1.KindCronJob, 25 * time.Minute, true},
		"an hourly CronJob":                  {v1alpha1.KindCronJob, 55 * time.Minute, true},
		"a daily CronJob":                    {v1alpha1.KindCronJob, 23 * time.Hour, true},
		"a Deployment at zero for 8 hours":   {v1alpha1.KindDeployment, 8 * time.Hour, true},
		"a StatefulSet down for six days":    {v1alpha1.KindStatefulSet, 6 * 24 * time.Hour, true},
		"one whose history has just run out": {v1alpha1.KindDeployment, 7*24*time.Hour - time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := sizing(t, nil).of(tc.kind)
			running := Desired(v)
			last := Newest(v.History.Profiles)
			v.Now = v.Now.Add(tc.idle)
			spec := Desired(v)
			require.NotNil(t, spec.Seed, spec.SeedBlocked)
			assert.Equal(t, running.Seed.Containers, spec.Seed.Containers)
			assert.Equal(t, running.Seed.Revision, spec.Seed.Revision)
			if !tc.hold {
				assert.Empty(t, spec.Containers[0].Holds)
				assert.Equal(t, v.Now.Add(seedLifetime), spec.Seed.ValidUntil.Time)
				return
			}
			assert.Equal(t, []string{"cpu NotRunning", "memory NotRunning"}, reasons(spec.Containers[0]), "no running pod is resized by it")
			assert.Equal(t, last.Add(v.Settings.Recommender.HistoryWindow), spec.Seed.ValidUntil.Time)
		})
	}
	v := sizing(t, nil)
	v.Now = v.Now.Add(7*time.Hour + 5*time.Minute)
	assert.Equal(t, "last ran at 2026-03-01 12:00 UTC, 7h5m ago; used for new pods only", Desired(v).Containers[0].Holds[0].Message)
}

// Pods ran and the source has no samples of them: no running pod is resized, and the seed stays.
func TestASilentSourceLeavesTheStandingSeed(t *testing.T) {
	v := sizing(t, nil)
	before := Desired(v)
	v.Now, v.History.Silent = v.Now.Add(8*time.Hour), true
	assert.Nil(t, Desired(v).Seed, "none is made of what a silent source once said")

	v.Stored.Seed, v.Stored.Containers = before.Seed, before.Containers
	after := Desired(v)
	require.NotNil(t, after.Seed)
	assert.Equal(t, before.Seed, after.Seed)
	assert.Equal(t, []string{"cpu StaleData", "memory StaleData"}, reasons(after.Containers[0]))

	v.Status.Floors = []v1alpha1.Floor{kill(600 * mi)}
	v.Status.Floors[0].LearnedAt = metav1.NewTime(v.Now)
	assert.Equal(t, "600Mi", Desired(v).Seed.Containers[0].MemoryLimitFloor.String(), "what killed is answered")
	assert.False(t, Desired(v).Seed.Containers[0].AllowMemoryDecrease)
	v.Status.Floors = nil

	settings := v.Settings
	v.Settings.Recommender.Of[recommender.Memory].AllowDecrease = false
	assert.False(t, Desired(v).Seed.Containers[0].AllowMemoryDecrease, "the policy forbids it since")
	for _, r := range recommender.Resources {
		v.Settings.Recommender.Of[r].LimitsFollow = false
	}
	left := Desired(v).Seed.Containers[0]
	assert.Equal(t, []bool{false, false}, []bool{left.CPULimitFollows, left.MemoryLimitFollows}, "RequestsOnly since")
	assert.Nil(t, left.CPULimitFloor)
	assert.Nil(t, left.MemoryLimitFloor)
	v.Settings = settings

	v.Status.BadSeeds = []string{before.Seed.Revision}
	assert.Equal(t, "SeedMarkedBad", Desired(v).SeedBlocked)
	v.Status.BadSeeds = nil
	v.Status.AdmissionWithdrawn = &v1alpha1.AdmissionWithdrawn{Reason: v1alpha1.ReasonPodsDoNotStart, Until: metav1.NewTime(v.Now.Add(time.Minute))}
	assert.Equal(t, v1alpha1.ReasonPodsDoNotStart, Desired(v).SeedBlocked)
	assert.Equal(t, v.Now.Add(time.Minute), Decision{}.Lasting(v).Until, "the seed comes back by time alone")
	v.Status.AdmissionWithdrawn = nil
	v.Blocked = sizing(t, map[recommender.Resource]string{recommender.CPU: "HPA"}).Blocked
	assert.Nil(t, Desired(v).Seed.Containers[0].CPURequest, "held by another since")
	assert.NotNil(t, Desired(v).Seed.Containers[0].MemoryRequest)
}

// New pods get a verified request below the target. By a ratio, their CPU limit would be below the usage.
func TestALimitByARatioOfAVerifiedRequestCoversTheUsage(t *testing.T) {
	v := sizing(t, nil)
	v.Settings.Resize.Mode = v1alpha1.UpdateAuto
	v.Settings.Recommender.Of[recommender.CPU].Limits = recommender.LimitRule{Thousandths: 1500}
	resources := &v.Workload.Template.Spec.Containers[0].Resources
	resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("512Mi")}
	resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("800m"), "memory": resource.MustParse("512Mi")}
	v.Status.Verified = []v1alpha1.VerifiedResources{{Name: "app", Size: v1alpha1.Resources{CPURequest: podview.ToPointer(recommender.CPU, 120)}}}
	spec := Desired(v)
	require.NotNil(t, spec.Seed)
	target, seed := spec.Containers[0], spec.Seed.Containers[0]
	require.Nil(t, target.CPULimitFloor, "the target's limit covers it")
	assert.Equal(t, "120m", seed.CPURequest.String())
	assert.Equal(t, target.Target.CPULimit.String(), seed.CPULimitFloor.String())
	v.Status.Verified[0].Size = target.Target
	assert.Nil(t, Desired(v).Seed.Containers[0].CPULimitFloor)
}

func TestRan(t *testing.T) {
	at := func(minutes int) metav1.Time { return metav1.NewTime(now.Add(time.Duration(minutes) * time.Minute)) }
	running := func(from int) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(from)}}
	}
	ended := func(from, to int) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: at(from), FinishedAt: at(to)}}
	}
	for name, tc := range map[string]struct {
		states []corev1.ContainerState
		want   time.Duration
	}{
		"no pod":                          {nil, 0},
		"waiting":                         {[]corev1.ContainerState{{}}, 0},
		"running since before the sample": {[]corev1.ContainerState{running(-600)}, time.Hour},
		"just started":                    {[]corev1.ContainerState{running(-3)}, 3 * time.Minute},
		"ended before the sample":         {[]corev1.ContainerState{ended(-100, -61)}, 0},
		"ended after the sample":          {[]corev1.ContainerState{ended(-100, -30)}, 30 * time.Minute},
		"one after the other":             {[]corev1.ContainerState{running(-10), ended(-40, -20), ended(-50, -45)}, 35 * time.Minute},
		"side by side":                    {[]corev1.ContainerState{ended(-50, -20), ended(-45, -40), ended(-30, -10), ended(-90, -50)}, 50 * time.Minute},
		"many that are gone soon":         {slices.Repeat([]corev1.ContainerState{ended(-3, -2)}, 30), time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []*corev1.Pod
			for i, state := range tc.states {
				pod := &corev1.Pod{}
				status := corev1.ContainerStatus{State: state}
				if i%2 == 1 {
					status = corev1.ContainerStatus{LastTerminationState: state}
				}
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
				pods = append(pods, pod)
			}
			assert.Equal(t, tc.want, Ran(pods, now.Add(-time.Hour), now))
		})
	}
}

// Jobs and CronJobs are sized by their runs.
func TestJobsAreSizedByTheirRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		every, lasts time.Duration
		kind         v1alpha1.WorkloadKind
		days         int
		blocked      string
		message      string
		raiseOnly    bool
	}{
		"every 10 min, 2 min long":   {10 * time.Minute, 2 * time.Minute, v1alpha1.KindCronJob, 7, "", "", false},
		"hourly, 4 min long":         {time.Hour, 4 * time.Minute, v1alpha1.KindCronJob, 7, "", "", false},
		"6-hourly, 4 min long":       {6 * time.Hour, 4 * time.Minute, v1alpha1.KindCronJob, 7, "", "", false},
		"daily, 4 min long":          {24 * time.Hour, 4 * time.Minute, v1alpha1.KindCronJob, 7, "", "", true},
		"daily for 8 days":           {24 * time.Hour, 4 * time.Minute, v1alpha1.KindCronJob, 8, "", "", false},
		"daily, 1 h long":            {24 * time.Hour, time.Hour, v1alpha1.KindCronJob, 7, "", "", false},
		"twice so far":               {24 * time.Hour, 4 * time.Minute, v1alpha1.KindCronJob, 2, seedAllBlocked, "2/48 samples and 1/3 complete runs measured; enough after 2 more runs", false},
		"three times, one goes on":   {24 * time.Hour, 4 * time.Minute, v1alpha1.KindJob, 3, seedAllBlocked, "3/48 samples and 2/3 complete runs measured; enough after 1 more run", false},
		"four times, one goes on":    {24 * time.Hour, 4 * time.Minute, v1alpha1.KindJob, 4, "", "", true},
		"a Deployment has no runs":   {24 * time.Hour, 4 * time.Minute, v1alpha1.KindDeployment, 7, seedAllBlocked, "7/48 samples measured; enough after 2026-03-01 15:25 UTC if none is missing", false},
		"weekly, 1 h long, one week": {7 * 24 * time.Hour, time.Hour, v1alpha1.KindCronJob, 7, seedAllBlocked, "12/48 samples and 0/3 complete runs measured; enough after 3 more runs", false},
	} {
		t.Run(name, func(t *testing.T) {
			v := sizing(t, nil).of(tc.kind)
			var steps []recommender.StepUsage
			for run := now.Add(-time.Duration(tc.days) * 24 * time.Hour).Add(tc.every); !run.After(now); run = run.Add(tc.every) {
				for at := run; at.Before(run.Add(tc.lasts)); at = at.Add(5 * time.Minute) {
					steps = append(steps, recommender.StepUsage{At: at, CPUCores: 0.2, MemoryBytes: 300 * mi})
				}
			}
			v.History.Profiles = map[string]recommender.Profile{"app": recommender.NewProfile(steps, 5*time.Minute)}
			v.Now = v.History.Profiles["app"].Last.Add(5 * time.Minute)
			spec := Desired(v)
			assert.Equal(t, tc.blocked, spec.SeedBlocked)
			if tc.blocked != "" {
				assert.Equal(t, tc.message, spec.Containers[0].Holds[0].Message)
				return
			}
			require.NotNil(t, spec.Seed)
			assert.Equal(t, tc.raiseOnly, spec.Seed.Containers[0].RaiseOnly)
		})
	}
}
