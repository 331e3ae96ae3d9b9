package workload

import (
	"fmt"
	"strings"
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
)

var (
	template = sizeOf(500, 0, 512, 1024)
	seedSize = sizeOf(200, 0, 200, 400)
)

func TestASeedThatHarmedIsMarkedOnce(t *testing.T) {
	pod := endedBefore(born(t, running("web-1", seedSize), "r1", template), "OOMKilled", 1, time.Minute)
	w := seen(t, template, pod)
	w.rec.Status.Kept = []v1alpha1.KeptSize{{Name: "app", Size: podview.ToResources(seedSize), TemplateHash: "abc"}}
	d := decide(w)
	assert.Equal(t, []string{"r1"}, d.status.BadSeeds)
	assert.Empty(t, d.status.Kept, "a size that killed is not kept")
	require.Len(t, d.told(), 1)
	assert.Contains(t, d.told()[0], "Warning SeedMarkedBad New pods are no longer born with seed r1, which harmed pod web-1: oomkill:")

	// Another one was proven later on, in spite of the old pod that is still there.
	w.rec.Status = d.status
	w.rec.Status.Kept = []v1alpha1.KeptSize{{Name: "app", Size: podview.ToResources(sizeOf(200, 0, 300, 600)), TemplateHash: "abc"}}
	d = decide(w)
	assert.Equal(t, []string{"r1"}, d.status.BadSeeds)
	assert.Len(t, d.status.Kept, 1)
	assert.Empty(t, d.told())
}

// A pod may be killed at a kept size long after its resize, when no record tells of it any more.
func TestASizeThatKilledIsNotKept(t *testing.T) {
	pod := endedBefore(running("web-1", seedSize), "OOMKilled", 1, time.Minute)
	w := seen(t, template, pod)
	w.rec.Status.Kept = []v1alpha1.KeptSize{
		{Name: "app", Size: podview.ToResources(seedSize), TemplateHash: "abc"}, {Name: "side", Size: podview.ToResources(seedSize), TemplateHash: "abc"},
	}
	d := decide(w)
	require.Len(t, d.status.Kept, 1)
	assert.Equal(t, "side", d.status.Kept[0].Name)
	assert.Len(t, w.rec.Status.Kept, 2, "what was read stays as it is")
}

func TestACrashLoopAtBirthTeachesTheTemplatesSize(t *testing.T) {
	pod := born(t, running("web-1", seedSize), "r1", template)
	pod.CreationTimestamp = metav1.NewTime(now.Add(-3 * time.Minute))
	w := seen(t, template, endedBefore(pod, "Error", 2, time.Minute))
	d := decide(w)
	assert.Equal(t, []string{"r1"}, d.status.BadSeeds)
	floors := resize.FloorsOf(d.status.Floors, "app", now)
	assert.Equal(t, recommender.Amount(500), floors[recommender.CPU].Amount)
	assert.Equal(t, recommender.Amount(512*mi), floors[recommender.Memory].Amount)
}

// A rollout explains a crash loop as well, for as long as it is stuck: no seed is blamed, and no further pod of that
// template is lowered.
func TestACrashLoopInARolloutWithholdsTheLowering(t *testing.T) {
	pod := born(t, running("web-1", seedSize), "r1", template)
	pod.CreationTimestamp = metav1.NewTime(now.Add(-3 * time.Minute))
	w := seen(t, template, endedBefore(pod, "Error", 2, time.Minute))
	w.workload.Rollout.InProgress = true
	d := decide(w)
	assert.Empty(t, d.status.BadSeeds)
	assert.Empty(t, d.status.Floors)
	assert.Equal(t, []v1alpha1.BirthCrash{{Name: "app", TemplateHash: "abc", Since: metav1.NewTime(now)}}, d.status.BirthCrashes)
	require.Len(t, d.told(), 2, "and the pod is put back")
	assert.Contains(t, d.told()[0], "Warning LoweringWithheld New pods of template abc are no longer lowered, as pod web-1 was born below its template's size: the workload is rolling out:")
	assert.True(t, d.presses(w), "it is stored before anything else is looked at")

	w.rec.Status = d.status
	d = decide(w)
	assert.Len(t, d.status.BirthCrashes, 1)
	assert.Empty(t, d.told(), "it is told once")
}

// The annotation is a hint that anybody can write.
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
			assert.Empty(t, decide(seen(t, template, pod)).status.BadSeeds)
		})
	}
}

// The seed in force is bad from the moment on in which a running pod suffers from the same size.
func TestTheSeedInForceIsMarkedAtTheFirstHarm(t *testing.T) {
	pod := running("web-1", seedSize)
	pod.Generation, pod.Status.ObservedGeneration = 2, 2
	w := seen(t, template, endedBefore(pod, "OOMKilled", 1, time.Minute))
	memory := podview.Quantity(recommender.Memory, 200*mi)
	w.rec.Spec.Seed = &v1alpha1.Seed{Revision: "r7", Containers: []v1alpha1.ContainerSeed{{Name: "app", MemoryRequest: &memory}}}
	w.rec.Status.Records = []v1alpha1.ResizeRecord{{
		PodUID: pod.UID, PodName: pod.Name, Phase: v1alpha1.RecordWatching, Generation: 2, TemplateHash: "abc",
		WrittenAt: metav1.NewTime(now.Add(-2 * time.Minute)), WatchUntil: &metav1.Time{Time: now.Add(time.Minute)},
		Prior:    []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(template)}},
		Desired:  []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(seedSize)}},
		Baseline: []v1alpha1.ContainerBaseline{{Name: "app", ContainerID: "containerd://web-1-1", StartedAt: &metav1.Time{Time: now.Add(-time.Hour)}, Ready: true}},
	}}
	d := decide(w)
	require.Len(t, d.status.Records, 1)
	assert.Equal(t, v1alpha1.RecordReverting, d.status.Records[0].Phase)
	assert.Equal(t, []string{"r7"}, d.status.BadSeeds)
}

// More seeds went wrong than a status remembers, and all their pods are still there: the status comes to rest.
func TestManyBadSeedsComeToRest(t *testing.T) {
	w := seen(t, template)
	for i := range v1alpha1.MaxBadSeeds + 5 {
		pod := born(t, running(fmt.Sprintf("web-%02d", i), seedSize), fmt.Sprintf("r%02d", i), template)
		pod.CreationTimestamp = metav1.NewTime(now.Add(-4*time.Minute + time.Duration(i)*time.Second))
		w.pods = append(w.pods, endedBefore(pod, "Error", 2, time.Minute))
	}
	w.rec.Status = decide(w).status
	require.Len(t, w.rec.Status.BadSeeds, v1alpha1.MaxBadSeeds)
	require.NotContains(t, w.rec.Status.BadSeeds, "r00", "the oldest are forgotten")
	for range 3 {
		d := decide(w)
		assert.Equal(t, w.rec.Status.BadSeeds, d.status.BadSeeds)
		assert.Empty(t, d.told())
		w.rec.Status = d.status
	}

	w.rec.Spec.Seed = &v1alpha1.Seed{Revision: "r00"}
	assert.Contains(t, decide(w).status.BadSeeds, "r00", "that of pods to come is the youngest")
}

// A pod that crashes since its birth holds the rollout up, so that no other one is created: it gets its template's size.
func TestAPodThatCrashesSinceItsBirthIsPutBack(t *testing.T) {
	for name, change := range map[string]func(*world){
		"in a rollout":                     func(w *world) { w.workload.Rollout.InProgress = true },
		"without one":                      func(*world) {},
		"while the cluster is paused":      func(w *world) { w.settings.Resize.Paused = []string{"cluster"} },
		"of a workload that pauses itself": func(w *world) { w.rec.Status.Paused = &v1alpha1.PausedState{Since: metav1.NewTime(now)} },
	} {
		t.Run(name, func(t *testing.T) {
			pod := born(t, running("web-1", seedSize), "r1", template)
			pod.CreationTimestamp = metav1.NewTime(now.Add(-3 * time.Minute))
			w := seen(t, template, endedBefore(pod, "Error", 2, time.Minute))
			change(&w)
			d := decide(w)
			require.Len(t, d.writes, 1)
			assert.Equal(t, []resize.Move{{Container: "app", From: seedSize, To: template}}, d.writes[0].plan.Moves)
			require.Len(t, d.status.Records, 1)
			assert.Equal(t, resize.WaveBirth, d.status.Records[0].Wave)
			assert.Contains(t, strings.Join(d.told(), "\n"), "Giving pod web-1 what its template says, as it crashes since it was born with less:")
		})
	}
	for name, change := range map[string]func(*world, *corev1.Pod){
		"autoRevert is off":                func(w *world, _ *corev1.Pod) { w.settings.Resize.AutoRevert = false },
		"mode Initial":                     func(w *world, _ *corev1.Pod) { w.settings.Resize.Mode = v1alpha1.UpdateInitial },
		"skipped":                          func(_ *world, p *corev1.Pod) { p.Annotations[v1alpha1.SkipAnnotation] = "true" },
		"it was resized since":             func(_ *world, p *corev1.Pod) { p.Generation = 2 },
		"it is being deleted":              func(w *world, p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} },
		"one restart is no crash loop":     func(_ *world, p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 1 },
		"it crashes a day after its birth": func(_ *world, p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-24 * time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			pod := born(t, running("web-1", seedSize), "r1", template)
			pod.CreationTimestamp = metav1.NewTime(now.Add(-3 * time.Minute))
			pod = endedBefore(pod, "Error", 2, time.Minute)
			w := seen(t, template, pod)
			w.workload.Rollout.InProgress = true
			change(&w, w.pods[0])
			for _, write := range decide(w).writes {
				assert.NotEqual(t, resize.WaveBirth, write.plan.Wave)
			}
		})
	}
}
