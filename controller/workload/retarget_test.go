package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning"
)

// A revert that a lost node never carries out does not raise the target for ever: it counts when it begins.
func TestARevertCountsWhenItBegins(t *testing.T) {
	pod := running("web-1", sizeOf(2000, 0, 512*mi, 0))
	record := v1alpha1.ResizeRecord{PodUID: pod.UID, Phase: v1alpha1.RecordReverting,
		Prior: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(1000, 0, 512*mi, 0))}}}
	forward := record
	forward.Phase, forward.Desired, forward.Prior = v1alpha1.RecordWatching, record.Prior, nil
	sends := []tuning.Write{{Pod: pod}}
	for name, c := range map[string]struct {
		stored, decided v1alpha1.ResizeRecord
		writes          []tuning.Write
		behind          bool
		want            recommender.Amount
	}{
		"begins":                           {forward, record, sends, false, 1000},
		"is tried again":                   {record, record, sends, false, 2000},
		"waits":                            {record, record, nil, false, 2000},
		"was sent, and the cache is older": {record, record, nil, true, 1000},
		"a resize":                         {forward, forward, nil, false, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			w := &tuning.View{Rec: &v1alpha1.AttuneRecommendation{}, Pods: []*corev1.Pod{pod}}
			w.Rec.Status.Records = []v1alpha1.ResizeRecord{c.stored}
			w.Looked.CacheLags = map[types.UID]bool{pod.UID: c.behind}
			d := tuning.Decision{Writes: c.writes}
			d.Status.Records = []v1alpha1.ResizeRecord{c.decided}
			got := lowestRequests(w, d)
			assert.Equal(t, c.want, podview.AmountIn(recommender.CPU, got[0].Spec.Containers[0].Resources.Requests))
			assert.EqualValues(t, 2000, podview.AmountIn(recommender.CPU, pod.Spec.Containers[0].Resources.Requests))
		})
	}
}

// Pods of different requests come and go: the target is not lowered by one for each of them.
func TestATargetALittleTooHighStaysForAMinute(t *testing.T) {
	c, key := &stored{}, types.NamespacedName{Name: "web"}
	assert.Equal(t, littleFor, c.staysRaised(key, 85, 84, false, now))
	assert.Equal(t, 20*time.Second, c.staysRaised(key, 85, 84, false, now.Add(40*time.Second)))
	assert.Zero(t, c.staysRaised(key, 85, 85, false, now.Add(50*time.Second)))
	assert.Equal(t, littleFor, c.staysRaised(key, 85, 84, false, now.Add(55*time.Second)), "anew")
	assert.Zero(t, c.staysRaised(key, 85, 84, false, now.Add(2*time.Minute)))
	assert.Zero(t, c.staysRaised(key, 85, 83, false, now), "it is more than a little")
	assert.Zero(t, c.staysRaised(key, 71, 70, true, now), "the original target")
	assert.Zero(t, c.staysRaised(key, 84, 85, false, now))
}

// The answer to a change is lost: the API server may have carried it out, so the target is not one that was set back.
func TestATargetOfALostAnswerWasNotSetBack(t *testing.T) {
	last := targetChange{from: 70, to: 74, at: now, sent: 78}
	assert.False(t, last.wasSetBack(78, now))
	assert.False(t, last.wasSetBack(74, now))
	assert.True(t, last.wasSetBack(70, now))
}

// The wait after a target was set back grows up to a day.
func TestTheWaitAfterATargetWasSetBackGrows(t *testing.T) {
	last := targetChange{from: 70, to: 85, at: now}
	assert.True(t, last.wasSetBack(70, now))
	assert.False(t, last.wasSetBack(85, now))
	assert.Equal(t, now.Add(10*time.Minute), last.rests(70, 85))
	assert.Equal(t, now.Add(time.Minute), last.rests(90, 85), "it is too high")
	last.setBack = 3
	assert.Equal(t, now.Add(80*time.Minute), last.rests(70, 85))
	last.setBack = 1 << 20
	assert.Equal(t, now.Add(24*time.Hour), last.rests(70, 85))
	assert.Equal(t, now.Add(24*time.Hour), last.rests(90, 85))
}
