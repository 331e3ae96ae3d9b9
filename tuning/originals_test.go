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
	"attune.io/attune/tuning"
)

func originalsNoted(status v1alpha1.AttuneRecommendationStatus) (sizes []recommender.Size) {
	for _, o := range status.Originals {
		sizes = append(sizes, podview.FromResources(o.Containers[0].Resources))
	}
	return sizes
}

// The pods' controller names no generations. A pod whose resources a user has changed still runs the same program.
func TestOriginalsOfPodsThatRunTheSameProgram(t *testing.T) {
	w := seen(t, small, jobPod(1, small), jobPod(2, big), jobPod(3, small))
	d := tuning.Decide(w)
	assert.Equal(t, []recommender.Size{small, big}, originalsNoted(d.Status))
	for range 3 {
		w.Rec.Status = d.Status
		d = tuning.Decide(w)
		assert.Equal(t, w.Rec.Status.Originals, d.Status.Originals, "and that is all")
	}
}

// More generations have pods than the list can store. The stored ones stay; otherwise each reconcile would write.
func TestAGenerationOfALivePodIsNotDropped(t *testing.T) {
	var pods []*corev1.Pod
	for i := range v1alpha1.MaxOriginals + 3 {
		pod := running(fmt.Sprintf("web-%d", i), small)
		pod.Labels = map[string]string{"pod-template-hash": fmt.Sprint("hash-", i)}
		pods = append(pods, pod)
	}
	w := seen(t, small, pods...)
	w.Rec.Status = tuning.Decide(w).Status
	require.Len(t, w.Rec.Status.Originals, v1alpha1.MaxOriginals)
	for range 3 {
		d := tuning.Decide(w)
		assert.Equal(t, w.Rec.Status.Originals, d.Status.Originals)
	}
	w.Pods = w.Pods[1:]
	d := tuning.Decide(w)
	assert.Len(t, d.Status.Originals, v1alpha1.MaxOriginals)
	assert.Equal(t, "hash-5", d.Status.Originals[v1alpha1.MaxOriginals-1].TemplateHash, "the place of one that has no pod any more is taken")
}

// A claim that would take minutes to parse is ignored, because users can write the annotation.
func TestANoteThatTakesLongToRead(t *testing.T) {
	pod := running("web-1", sizeOf(1000, 0, 1024, 1024))
	pod.Annotations = map[string]string{v1alpha1.SeededAnnotation: `{"original":[{"name":"app","cpuRequest":"1e-2147483647"}]}`}
	assert.Nil(t, tuning.SeededOf(pod))
	pod.Annotations[v1alpha1.SeededAnnotation] = `{"original":[{"name":"app","cpuRequest":"2"}]}`
	assert.NotNil(t, tuning.SeededOf(pod))
}

// The recommendation of resized pods was deleted, or restored from a backup without its status.
func TestOriginalsOfResizedPodsAreTheirTemplates(t *testing.T) {
	had, has := sizeOf(1000, 0, 1024, 1024), sizeOf(125, 0, 128, 256)
	resized := func() *corev1.Pod {
		pod := running("web-1", has)
		pod.Generation, pod.Status.ObservedGeneration = 4, 4
		return pod
	}
	w := seen(t, had, resized())
	d := tuning.Decide(w)
	assert.Equal(t, []recommender.Size{had}, originalsNoted(d.Status))
	w.Rec.Status = d.Status
	w.Workload.Annotations[v1alpha1.UndoAnnotation] = now.Format(time.RFC3339)
	d = tuning.Decide(w)
	require.Len(t, d.Writes, 1, "an undo still puts it back")
	assert.Equal(t, had, d.Writes[0].Plan.Moves[0].To)

	// A LimitRange sets values that the template does not set. A missing request equals the limit.
	w = seen(t, recommender.Size{recommender.Memory: {Limit: 1024 * mi}}, resized())
	assert.Equal(t, []recommender.Size{sizeOf(125, 0, 1024, 1024)}, originalsNoted(tuning.Decide(w).Status))
}

// Without the template, a size set by attune does not count as the original.
func TestOriginalsAreNotNotedWithoutATemplate(t *testing.T) {
	had, has := sizeOf(1000, 0, 1024, 1024), sizeOf(125, 0, 128, 256)
	for name, lose := range map[string]func(*tuning.View){
		"the workload": func(w *tuning.View) { w.Workload = nil },
		"the template": func(w *tuning.View) { w.Workload.Template = nil },
	} {
		t.Run(name, func(t *testing.T) {
			pod := running("web-1", has)
			pod.Generation, pod.Status.ObservedGeneration = 2, 2
			pod.Labels = nil
			w := seen(t, had, pod)
			w.Rec.Status = tuning.Decide(w).Status
			require.Equal(t, []recommender.Size{had}, originalsNoted(w.Rec.Status))
			lose(&w)
			assert.Equal(t, []recommender.Size{had}, originalsNoted(tuning.Decide(w).Status))
			seeded := seen(t, had, born(t, running("web-1", has), "r", had))
			lose(&seeded)
			assert.Empty(t, originalsNoted(tuning.Decide(seeded).Status))
		})
	}
}

// During a rollout, and while the cache may show an older template, it is not known which template created a changed
// pod.
func TestOriginalsAreNotThoseOfAnotherTemplate(t *testing.T) {
	before, after, has := sizeOf(1000, 0, 1024, 1024), sizeOf(2000, 0, 2048, 2048), sizeOf(125, 0, 128, 256)
	rolling := func(w *tuning.View) { w.Workload.Rollout.InProgress = true }
	justBorn := func(w *tuning.View) { w.Pods[0].CreationTimestamp = metav1.NewTime(now.Add(-time.Second)) }
	resized := func(w *tuning.View) { w.Pods[0].Generation = 2 }
	otherProgram := func(w *tuning.View) {
		resized(w)
		w.Pods[0].Labels, w.Pods[0].Spec.Containers[0].Image = nil, "app:1"
	}
	for _, tc := range []struct {
		name  string
		pod   *corev1.Pod
		edits []func(*tuning.View)
		want  []recommender.Size
	}{
		{"resized, of whichever template", running("web-1", has), []func(*tuning.View){resized, rolling}, nil},
		{"resized, of another program", running("web-1", has), []func(*tuning.View){otherProgram}, nil},
		{"seeded from the old template", born(t, running("web-1", has), "r", before), []func(*tuning.View){rolling}, nil},
		{"seeded from a template that is not seen yet", born(t, running("web-1", has), "r", before), []func(*tuning.View){justBorn}, nil},
		{"seeded from the new template", born(t, running("web-1", has), "r", after), []func(*tuning.View){rolling, justBorn}, []recommender.Size{after}},
		{"as it was made", running("web-1", before), []func(*tuning.View){rolling}, []recommender.Size{before}},
		{"a claim that nothing bears out", born(t, running("web-1", has), "r", before), nil, []recommender.Size{after}},
		{"seeded without anything before", born(t, running("web-1", has), "r", recommender.Size{}), nil, []recommender.Size{after}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := seen(t, after, tc.pod)
			for _, edit := range tc.edits {
				edit(&w)
			}
			assert.Equal(t, tc.want, originalsNoted(tuning.Decide(w).Status))
		})
	}
	bestEffort := seen(t, recommender.Size{}, born(t, running("web-1", has), "r", recommender.Size{}))
	assert.Equal(t, []recommender.Size{{}}, originalsNoted(tuning.Decide(bestEffort).Status), "it asked for nothing")
}
