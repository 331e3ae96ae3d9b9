package workload

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
	"attune.io/attune/resize"
)

// trial is a wave of pods that were resized alike, whose watches end now; the harmed ones are throttled.
func trial(t *testing.T, pods int, harmed ...int) world {
	t.Helper()
	w := judged(t)
	pod, record := w.pods[0], w.rec.Status.Records[0]
	w.pods, w.rec.Status.Records = nil, nil
	for i := range pods {
		name := fmt.Sprintf("web-%d", i)
		other, of := running(name, podview.FromResources(record.Desired[0].Resources)), *record.DeepCopy()
		other.Generation, other.Status.ObservedGeneration = pod.Generation, pod.Generation
		of.PodName, of.PodUID, of.Baseline[0].ContainerID = name, other.UID, "containerd://"+name
		w.pods, w.rec.Status.Records = append(w.pods, other), append(w.rec.Status.Records, of)
		ratio := 0.1
		if slices.Contains(harmed, i) {
			ratio = 0.9
		}
		w.measured[name] = resize.Signals{Throttle: map[string]float64{"app": ratio}}
	}
	return w
}

// Who survives the watch beside a pod that did not makes nothing good again, whichever comes first in the list.
func TestASurvivorDoesNotKeepWhatHarmedItsSibling(t *testing.T) {
	for _, harmed := range []int{0, 1, 2} {
		for _, before := range []*v1alpha1.Backoff{nil, {ConsecutiveReverts: 3, Since: metav1.NewTime(now.Add(-time.Hour))}} {
			w := trial(t, 3, harmed)
			w.rec.Status.Backoff = before
			d := decide(w)
			assert.Empty(t, d.status.Kept)
			require.NotNil(t, d.status.Backoff)
			want := int32(1)
			if before != nil {
				want = 4
			}
			assert.Equal(t, want, d.status.Backoff.ConsecutiveReverts)
		}
	}
}

// The siblings of a harmed pod end their watches later: by then the revert may be over.
func TestALateSurvivorDoesNotKeepWhatHarmedItsSibling(t *testing.T) {
	w := trial(t, 2, 0)
	late := w.rec.Status.Records[1]
	w.rec.Status.Records[1].WatchUntil = &metav1.Time{Time: now.Add(time.Minute)}
	d := decide(w)
	require.Len(t, d.status.Records, 2)
	w.rec.Status = d.status
	late.WatchUntil = &metav1.Time{Time: now.Add(time.Minute)}
	w.rec.Status.Records = []v1alpha1.ResizeRecord{late}
	w.now = now.Add(2 * time.Minute)
	d = decide(w)
	assert.Empty(t, d.status.Kept, "its floor holds")
	require.NotNil(t, d.status.Backoff, "its watch began before the revert")
	assert.EqualValues(t, 1, d.status.Backoff.ConsecutiveReverts)
}

func TestManyHarmedPodsOfOneTrialAreOneRevert(t *testing.T) {
	w := trial(t, 10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	d := decide(w)
	assert.Len(t, d.writes, 10)
	assert.EqualValues(t, 1, d.status.Backoff.ConsecutiveReverts)
}

func TestAllThatSurviveKeepTheirSize(t *testing.T) {
	w := trial(t, 3)
	w.rec.Status.Backoff = &v1alpha1.Backoff{ConsecutiveReverts: 3, Since: metav1.NewTime(now.Add(-time.Hour))}
	d := decide(w)
	require.Len(t, d.status.Kept, 1)
	assert.Equal(t, sizeOf(200, 400, 200, 400), podview.FromResources(d.status.Kept[0].Size))
	assert.Nil(t, d.status.Backoff, "begun after the last revert")
}
