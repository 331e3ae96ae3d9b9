package tuning_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize/harm"
	"attune.io/attune/tuning"
)

// trial returns a wave of pods with the same resize, whose observation ends now. The harmed ones are throttled.
func trial(t *testing.T, pods int, harmed ...int) tuning.View {
	t.Helper()
	w := judged(t)
	pod, record := w.Pods[0], w.Rec.Status.Records[0]
	w.Pods, w.Rec.Status.Records = nil, nil
	for i := range pods {
		name := fmt.Sprintf("web-%d", i)
		other, of := running(name, podview.FromResources(record.Desired[0].Resources)), *record.DeepCopy()
		other.Generation, other.Status.ObservedGeneration = pod.Generation, pod.Generation
		of.PodName, of.PodUID, of.Baseline[0].ContainerID = name, other.UID, "containerd://"+name
		w.Pods, w.Rec.Status.Records = append(w.Pods, other), append(w.Rec.Status.Records, of)
		ratio := 0.1
		if slices.Contains(harmed, i) {
			ratio = 0.9
		}
		w.Usage.Signals[name] = harm.Signals{Throttle: map[string]float64{"app": ratio}}
	}
	return w
}

// If one pod shows a regression, the size is not verified by its siblings, in any order of the records.
func TestASurvivorDoesNotKeepWhatHarmedItsSibling(t *testing.T) {
	for _, harmed := range []int{0, 1, 2} {
		for _, before := range []*v1alpha1.Backoff{nil, {ConsecutiveReverts: 3, Since: metav1.NewTime(now.Add(-time.Hour))}} {
			w := trial(t, 3, harmed)
			w.Rec.Status.Backoff = before
			d := tuning.Decide(w)
			assert.Empty(t, d.Status.Verified)
			require.NotNil(t, d.Status.Backoff)
			want := int32(1)
			if before != nil {
				want = 4
			}
			assert.Equal(t, want, d.Status.Backoff.ConsecutiveReverts)
		}
	}
}

// The observation of a sibling may end later, when the revert is already complete.
func TestALateSurvivorDoesNotKeepWhatHarmedItsSibling(t *testing.T) {
	w := trial(t, 2, 0)
	late := w.Rec.Status.Records[1]
	w.Rec.Status.Records[1].WatchUntil = &metav1.Time{Time: now.Add(time.Minute)}
	d := tuning.Decide(w)
	require.Len(t, d.Status.Records, 2)
	w.Rec.Status = d.Status
	late.WatchUntil = &metav1.Time{Time: now.Add(time.Minute)}
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{late}
	w.Now = now.Add(2 * time.Minute)
	d = tuning.Decide(w)
	assert.Empty(t, d.Status.Verified, "its floor holds")
	require.NotNil(t, d.Status.Backoff, "its watch began before the revert")
	assert.EqualValues(t, 1, d.Status.Backoff.ConsecutiveReverts)
}

func TestManyHarmedPodsOfOneTrialAreOneRevert(t *testing.T) {
	w := trial(t, 10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	d := tuning.Decide(w)
	assert.Len(t, d.Writes, 10)
	assert.EqualValues(t, 1, d.Status.Backoff.ConsecutiveReverts)
}

func TestAllThatSurviveKeepTheirSize(t *testing.T) {
	w := trial(t, 3)
	w.Rec.Status.Backoff = &v1alpha1.Backoff{ConsecutiveReverts: 3, Since: metav1.NewTime(now.Add(-time.Hour))}
	d := tuning.Decide(w)
	require.Len(t, d.Status.Verified, 1)
	assert.Equal(t, sizeOf(200, 400, 200, 400), podview.FromResources(d.Status.Verified[0].Size))
	assert.Nil(t, d.Status.Backoff, "begun after the last revert")
}
