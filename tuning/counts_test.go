package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// A resize is counted once per changed resource, its regression once, and its duration if it was verified.
func TestWhatIsCountedOfARecord(t *testing.T) {
	record := v1alpha1.ResizeRecord{
		PodName: "web-1", WrittenAt: metav1.NewTime(now), VerifiedOnce: &metav1.Time{Time: now.Add(3 * time.Second)},
		Prior:   []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(500, 0, 512, 1024))}},
		Desired: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(300, 0, 256, 512))}},
	}
	assert.Equal(t, []tuning.Count{{Resource: "cpu", Result: "success"}, {Resource: "memory", Result: "success"}}, tuning.CountsOf("success", record, ""))
	assert.Equal(t, []tuning.Count{
		{Resource: "cpu", Result: "reverted", Reason: "oomkill"}, {Resource: "memory", Result: "reverted", Reason: "oomkill"}, {Reason: "oomkill"},
	}, tuning.CountsOf("reverted", record, "oomkill"))
	assert.Equal(t, []tuning.Count{{Took: 3 * time.Second}}, tuning.TookOf(record))
	assert.Nil(t, tuning.TookOf(v1alpha1.ResizeRecord{}), "never verified")
}

// Amounts that the runtime does not report are no success: the event says so, and nothing is counted.
func TestDriftIsNoSuccess(t *testing.T) {
	for name, tc := range map[string]struct {
		reported int64
		want     []tuning.Count
	}{
		"as requested":  {300, []tuning.Count{{Resource: "cpu", Result: "success"}, {Took: 5 * time.Minute}}},
		"other amounts": {500, nil},
	} {
		w := resized(t, v1alpha1.RecordApplied, sizeOf(300, 0, 512, 0))
		w.Rec.Status.Records[0].VerifiedOnce = &metav1.Time{Time: now.Add(-5 * time.Minute)}
		reported := podview.ToRequirements(sizeOf(recommender.Amount(tc.reported), 0, 512, 0))
		w.Pods[0].Status.ContainerStatuses[0].Resources = &reported
		d := tuning.Decide(w)
		assert.Equal(t, tc.want, d.Counts, name)
		assert.Len(t, told(d), 1, name)
	}
}

// A raise before an OOM kill and its restore are counted in addition to their resizes.
func TestWhatIsCountedOfARaise(t *testing.T) {
	raise := v1alpha1.ResizeRecord{
		PodName: "web-1", Reason: resize.ReasonClimb,
		Prior:   []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(500, 0, 512, 1024))}},
		Desired: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(500, 0, 512, 2048))}},
	}
	back := raise
	back.Reason, back.Wave = resize.ReasonSpike, resize.WaveSpike
	raises := func(result string, record v1alpha1.ResizeRecord, harm string) (all []string) {
		for _, n := range tuning.CountsOf(result, record, harm) {
			if n.Raise != "" {
				all = append(all, n.Raise)
			}
		}
		return all
	}
	assert.Equal(t, []string{"raised"}, raises("success", raise, ""))
	assert.Equal(t, []string{"failed"}, raises("failed", raise, ""))
	assert.Equal(t, []string{"reverted"}, raises("reverted", raise, "oomkill"))
	assert.Equal(t, []string{"restored"}, raises("success", back, ""))
	assert.Empty(t, raises("failed", back, ""), "it keeps its raise")
	back.Reason, back.Wave = "Target", "1"
	assert.Empty(t, raises("success", back, ""))
}
