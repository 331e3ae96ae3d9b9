package workload

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

func originalsNoted(status v1alpha1.AttuneRecommendationStatus) (sizes []recommender.Size) {
	for _, o := range status.Originals {
		sizes = append(sizes, podview.FromResources(o.Containers[0].Resources))
	}
	return sizes
}

// jobPod is that of one Job of CronJob backup.
func jobPod(i int, size recommender.Size) *corev1.Pod {
	pod := running(fmt.Sprintf("backup-2938475%d-x", i), size)
	pod.Labels = map[string]string{batchv1.ControllerUidLabel: fmt.Sprintf("uid-%d", i)}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: fmt.Sprintf("backup-2938475%d", i), Controller: ptr.To(true)}}
	return pod
}

// Jobs of a CronJob come for ever, and some are kept: all of them have its template.
func TestAllJobsOfACronJobHaveOneOriginal(t *testing.T) {
	for name, phase := range map[string]corev1.PodPhase{"ended": corev1.PodSucceeded, "running": corev1.PodRunning} {
		for _, jobs := range []int{1, 6, 20} {
			t.Run(fmt.Sprint(jobs, " ", name), func(t *testing.T) {
				rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Name: "cronjob-backup", Namespace: "shop"}}
				rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindCronJob, Name: "backup"}
				cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "backup", Namespace: "shop"}}
				cron.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Resources: podview.ToRequirements(small)}}
				objects := []client.Object{cron}
				for i := range jobs {
					pod := jobPod(i, small)
					pod.Status.Phase = phase
					objects = append(objects, pod)
				}
				l := newLab(t, rec, objects...)
				assert.Less(t, l.storm(50), 3)
				l.live(24 * time.Hour)
				assert.LessOrEqual(t, l.status, 2, "in a day in which nothing happens")
				assert.LessOrEqual(t, len(l.rec().Status.Originals), 1)
			})
		}
	}
}

// Pods that nothing names the template of: a person who changes sizes alone makes no other program of them.
func TestOriginalsOfPodsThatRunTheSameProgram(t *testing.T) {
	w := seen(t, small, jobPod(1, small), jobPod(2, big), jobPod(3, small))
	d := decide(w)
	assert.Equal(t, []recommender.Size{small, big}, originalsNoted(d.status))
	for range 3 {
		w.rec.Status = d.status
		d = decide(w)
		assert.Equal(t, w.rec.Status.Originals, d.status.Originals, "and that is all")
	}
}

// More generations than are kept have pods: what is noted of them stays, or each pass would write.
func TestAGenerationOfALivePodIsNotDropped(t *testing.T) {
	var pods []*corev1.Pod
	for i := range v1alpha1.MaxOriginals + 3 {
		pod := running(fmt.Sprintf("web-%d", i), small)
		pod.Labels = map[string]string{"pod-template-hash": fmt.Sprint("hash-", i)}
		pods = append(pods, pod)
	}
	w := seen(t, small, pods...)
	w.rec.Status = decide(w).status
	require.Len(t, w.rec.Status.Originals, v1alpha1.MaxOriginals)
	for range 3 {
		d := decide(w)
		assert.Equal(t, w.rec.Status.Originals, d.status.Originals)
	}
	w.pods = w.pods[1:]
	d := decide(w)
	assert.Len(t, d.status.Originals, v1alpha1.MaxOriginals)
	assert.Equal(t, "hash-5", d.status.Originals[v1alpha1.MaxOriginals-1].TemplateHash, "the place of one that has no pod any more is taken")
}

// TestANoteThatTakesLongToRead is none: anybody who makes pods writes it.
func TestANoteThatTakesLongToRead(t *testing.T) {
	pod := running("web-1", sizeOf(1000, 0, 1024, 1024))
	pod.Annotations = map[string]string{v1alpha1.SeededAnnotation: `{"original":[{"name":"app","cpuRequest":"1e-2147483647"}]}`}
	assert.Nil(t, seededOf(pod))
	pod.Annotations[v1alpha1.SeededAnnotation] = `{"original":[{"name":"app","cpuRequest":"2"}]}`
	assert.NotNil(t, seededOf(pod))
}

// The recommendation of resized pods was deleted, or came back from a backup without its status.
func TestOriginalsOfResizedPodsAreTheirTemplates(t *testing.T) {
	had, has := sizeOf(1000, 0, 1024, 1024), sizeOf(125, 0, 128, 256)
	resized := func() *corev1.Pod {
		pod := running("web-1", has)
		pod.Generation, pod.Status.ObservedGeneration = 4, 4
		return pod
	}
	w := seen(t, had, resized())
	d := decide(w)
	assert.Equal(t, []recommender.Size{had}, originalsNoted(d.status))
	w.rec.Status = d.status
	w.workload.Annotations[v1alpha1.UndoAnnotation] = now.Format(time.RFC3339)
	d = decide(w)
	require.Len(t, d.writes, 1, "an undo still puts it back")
	assert.Equal(t, had, d.writes[0].plan.Moves[0].To)

	// What the template leaves open, a LimitRange gave; a request beside a limit is the limit.
	w = seen(t, recommender.Size{recommender.Memory: {Limit: 1024 * mi}}, resized())
	assert.Equal(t, []recommender.Size{sizeOf(125, 0, 1024, 1024)}, originalsNoted(decide(w).status))
}

// In a rollout, and while the workload is seen older than its pods, nobody knows which template a changed pod is of.
func TestOriginalsAreNotThoseOfAnotherTemplate(t *testing.T) {
	before, after, has := sizeOf(1000, 0, 1024, 1024), sizeOf(2000, 0, 2048, 2048), sizeOf(125, 0, 128, 256)
	rolling := func(w *world) { w.workload.Rollout.InProgress = true }
	justBorn := func(w *world) { w.pods[0].CreationTimestamp = metav1.NewTime(now.Add(-time.Second)) }
	resized := func(w *world) { w.pods[0].Generation = 2 }
	otherProgram := func(w *world) {
		resized(w)
		w.pods[0].Labels, w.pods[0].Spec.Containers[0].Image = nil, "app:1"
	}
	for _, tc := range []struct {
		name  string
		pod   *corev1.Pod
		edits []func(*world)
		want  []recommender.Size
	}{
		{"resized, of whichever template", running("web-1", has), []func(*world){resized, rolling}, nil},
		{"resized, of another program", running("web-1", has), []func(*world){otherProgram}, nil},
		{"seeded from the old template", born(t, running("web-1", has), "r", before), []func(*world){rolling}, nil},
		{"seeded from a template that is not seen yet", born(t, running("web-1", has), "r", before), []func(*world){justBorn}, nil},
		{"seeded from the new template", born(t, running("web-1", has), "r", after), []func(*world){rolling, justBorn}, []recommender.Size{after}},
		{"as it was made", running("web-1", before), []func(*world){rolling}, []recommender.Size{before}},
		{"a claim that nothing bears out", born(t, running("web-1", has), "r", before), nil, []recommender.Size{after}},
		{"seeded without anything before", born(t, running("web-1", has), "r", recommender.Size{}), nil, []recommender.Size{after}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := seen(t, after, tc.pod)
			for _, edit := range tc.edits {
				edit(&w)
			}
			assert.Equal(t, tc.want, originalsNoted(decide(w).status))
		})
	}
	bestEffort := seen(t, recommender.Size{}, born(t, running("web-1", has), "r", recommender.Size{}))
	assert.Equal(t, []recommender.Size{{}}, originalsNoted(decide(bestEffort).status), "it asked for nothing")
}
