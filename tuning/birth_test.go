package tuning_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

func TestASeedThatHarmedIsMarkedOnce(t *testing.T) {
	pod := endedBefore(born(t, running("web-1", seedSize), "r1", template), "OOMKilled", 1, time.Minute)
	w := heading(seen(t, template, pod), seedSize)
	w.Rec.Status.Verified = []v1alpha1.VerifiedResources{{Name: "app", Size: podview.ToResources(seedSize), TemplateHash: "abc"}}
	d := tuning.Decide(w)
	assert.Equal(t, []string{"r1"}, d.Status.BadSeeds)
	assert.Empty(t, d.Status.Verified, "a size that killed is not kept")
	require.Len(t, told(d), 1)
	assert.Contains(t, told(d)[0], "Warning SeedMarkedBad New pods no longer get seed r1, which caused a regression of pod web-1: oomkill:")

	// Another size was verified later, although the old pod still exists.
	w.Rec.Status = d.Status
	w.Rec.Status.Verified = []v1alpha1.VerifiedResources{{Name: "app", Size: podview.ToResources(sizeOf(200, 0, 300, 600)), TemplateHash: "abc"}}
	d = tuning.Decide(w)
	assert.Equal(t, []string{"r1"}, d.Status.BadSeeds)
	assert.Len(t, d.Status.Verified, 1)
	assert.Empty(t, told(d))
}

// A pod may be killed at a verified size long after its resize, when it has no record any more.
func TestASizeThatKilledIsNotKept(t *testing.T) {
	pod := endedBefore(running("web-1", seedSize), "OOMKilled", 1, time.Minute)
	w := seen(t, template, pod)
	w.Rec.Status.Verified = []v1alpha1.VerifiedResources{
		{Name: "app", Size: podview.ToResources(seedSize), TemplateHash: "abc"}, {Name: "side", Size: podview.ToResources(seedSize), TemplateHash: "abc"},
	}
	d := tuning.Decide(w)
	require.Len(t, d.Status.Verified, 1)
	assert.Equal(t, "side", d.Status.Verified[0].Name)
	assert.Len(t, w.Rec.Status.Verified, 2, "what was read stays as it is")
}

func TestACrashLoopAtBirthTeachesTheTemplatesSize(t *testing.T) {
	pod := born(t, running("web-1", seedSize), "r1", template)
	pod.CreationTimestamp = metav1.NewTime(now.Add(-3 * time.Minute))
	w := seen(t, template, endedBefore(pod, "Error", 2, time.Minute))
	d := tuning.Decide(w)
	assert.Equal(t, []string{"r1"}, d.Status.BadSeeds)
	floors := resize.FloorsOf(d.Status.Floors, "app", now)
	assert.Equal(t, recommender.Amount(500), floors[recommender.CPU].Amount)
	assert.Equal(t, recommender.Amount(512*mi), floors[recommender.Memory].Amount)
}

// A stuck rollout also explains a crash loop. So no seed is blamed, and no further pod of that template is lowered.
func TestACrashLoopInARolloutWithholdsTheLowering(t *testing.T) {
	pod := born(t, running("web-1", seedSize), "r1", template)
	pod.CreationTimestamp = metav1.NewTime(now.Add(-3 * time.Minute))
	w := seen(t, template, endedBefore(pod, "Error", 2, time.Minute))
	w.Workload.Rollout.InProgress = true
	d := tuning.Decide(w)
	assert.Empty(t, d.Status.BadSeeds)
	assert.Empty(t, d.Status.Floors)
	assert.Equal(t, []v1alpha1.FailedStart{{Name: "app", TemplateHash: "abc", Since: metav1.NewTime(now)}}, d.Status.FailedStarts)
	require.Len(t, told(d), 2, "and the pod is put back")
	assert.Contains(t, told(d)[0], "Warning LoweringBlocked attune no longer lowers new pods of template abc, because pod web-1 was created below its template's resources: the workload is rolling out:")
	assert.True(t, d.Presses(w), "it is stored before anything else is looked at")

	w.Rec.Status = d.Status
	d = tuning.Decide(w)
	assert.Len(t, d.Status.FailedStarts, 1)
	assert.Empty(t, told(d), "it is told once")
}

// Users can write the annotation, so it is only a hint.
func TestASeedIsNotBlamedOnHearsay(t *testing.T) {
	killed := func(pod *corev1.Pod) *corev1.Pod { return endedBefore(pod, "OOMKilled", 1, time.Minute) }
	for name, pod := range map[string]*corev1.Pod{
		"it has what its template says":   killed(born(t, running("web-1", template), "r1", template)),
		"its claimed original is made up": killed(born(t, running("web-1", template), "r1", sizeOf(4000, 0, 4096, 8192))),
		"it was resized since": func() *corev1.Pod {
			p := killed(born(t, running("web-1", seedSize), "r1", template))
			p.Generation = 2
			return p
		}(),
		"it is another workload's seed": func() *corev1.Pod {
			p := killed(running("web-1", seedSize))
			p.Annotations[v1alpha1.SeededAnnotation] = `{"recommendation":"deployment-other","revision":"r1"}`
			return p
		}(),
		"it was not seeded": killed(running("web-1", seedSize)),
		"the annotation is not even written": func() *corev1.Pod {
			p := killed(running("web-1", seedSize))
			p.Annotations[v1alpha1.SeededAnnotation] = "?"
			return p
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, tuning.Decide(seen(t, template, pod)).Status.BadSeeds)
		})
	}
}

// The current seed becomes bad as soon as a running pod shows a regression at the same size.
func TestTheSeedInForceIsMarkedAtTheFirstHarm(t *testing.T) {
	pod := running("web-1", seedSize)
	pod.Generation, pod.Status.ObservedGeneration = 2, 2
	w := seen(t, template, endedBefore(pod, "OOMKilled", 1, time.Minute))
	memory := podview.Quantity(recommender.Memory, 200*mi)
	w.Rec.Spec.Seed = &v1alpha1.Seed{Revision: "r7", Containers: []v1alpha1.ContainerSeed{{Name: "app", MemoryRequest: &memory}}}
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{{
		PodUID: pod.UID, PodName: pod.Name, Phase: v1alpha1.RecordWatching, Generation: 2, TemplateHash: "abc",
		WrittenAt: metav1.NewTime(now.Add(-2 * time.Minute)), WatchUntil: &metav1.Time{Time: now.Add(time.Minute)},
		Prior:    []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(template)}},
		Desired:  []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(seedSize)}},
		Baseline: []v1alpha1.ContainerBaseline{{Name: "app", ContainerID: "containerd://web-1-1", StartedAt: &metav1.Time{Time: now.Add(-time.Hour)}, Ready: true}},
	}}
	d := tuning.Decide(w)
	require.Len(t, d.Status.Records, 1)
	assert.Equal(t, v1alpha1.RecordReverting, d.Status.Records[0].Phase)
	assert.Equal(t, []string{"r7"}, d.Status.BadSeeds)
}

// There are more bad seeds than the status stores, and all their pods still exist. The status must not change in
// every reconcile.
func TestManyBadSeedsComeToRest(t *testing.T) {
	w := seen(t, template)
	for i := range v1alpha1.MaxBadSeeds + 5 {
		pod := born(t, running(fmt.Sprintf("web-%02d", i), seedSize), fmt.Sprintf("r%02d", i), template)
		pod.CreationTimestamp = metav1.NewTime(now.Add(-4*time.Minute + time.Duration(i)*time.Second))
		w.Pods = append(w.Pods, endedBefore(pod, "Error", 2, time.Minute))
	}
	w.Rec.Status = tuning.Decide(w).Status
	require.Len(t, w.Rec.Status.BadSeeds, v1alpha1.MaxBadSeeds)
	require.NotContains(t, w.Rec.Status.BadSeeds, "r00", "the oldest are forgotten")
	for range 3 {
		d := tuning.Decide(w)
		assert.Equal(t, w.Rec.Status.BadSeeds, d.Status.BadSeeds)
		assert.Empty(t, told(d))
		w.Rec.Status = d.Status
	}

	w.Rec.Spec.Seed = &v1alpha1.Seed{Revision: "r00"}
	assert.Contains(t, tuning.Decide(w).Status.BadSeeds, "r00", "that of pods to come is the youngest")
}
