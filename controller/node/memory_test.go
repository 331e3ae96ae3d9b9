package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// The loop finds a resize of any writer, and whether it lowered anything.
func TestResizesAreRemembered(t *testing.T) {
	look := func(m remembered, at time.Duration, cpuRequest, limit int64) remembered {
		s := sceneOf("8", 1000, member("a", size(recommender.Amount(cpuRequest), 64, recommender.Amount(limit))))
		s.now = noon.Add(at)
		return m.see(s)
	}
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	m := look(remembered{}, 0, 2000, 200)
	assert.Zero(t, m.changed("a"))
	assert.Equal(t, 24*time.Hour, m.soon(noon, 24*time.Hour), "nothing waits")
	m = look(m, time.Minute, 1500, 200)
	assert.Equal(t, changes{at(time.Minute), at(time.Minute)}, m.changed("a"))
	m = look(m, 2*time.Minute, 1600, 200)
	assert.Equal(t, changes{at(time.Minute), at(2 * time.Minute)}, m.changed("a"), "a raise")
	m = look(m, 3*time.Minute, 1700, 150)
	assert.Equal(t, changes{at(3 * time.Minute), at(3 * time.Minute)}, m.changed("a"), "a limit counts")
	m = look(m, 4*time.Minute, 1700, 150)
	assert.Equal(t, changes{at(3 * time.Minute), at(3 * time.Minute)}, m.changed("a"), "nothing new")
	assert.Equal(t, node.Pace-time.Minute, m.soon(at(4*time.Minute), 24*time.Hour))
	assert.Equal(t, node.LoweredEvery-10*time.Minute, m.soon(at(13*time.Minute), 24*time.Hour))
	assert.Equal(t, node.Rest-20*time.Minute, m.soon(at(23*time.Minute), 24*time.Hour))
	assert.Equal(t, 24*time.Hour, m.soon(at(3*time.Minute+node.Rest), 24*time.Hour))
	assert.Empty(t, m.see(&scene{now: noon}).seen, "a pod that is gone is forgotten")
}

// After a restart, resizes are found in the records and the history.
func TestResizesBeforeARestart(t *testing.T) {
	pod := member("a", size(1500, 64, 200))
	row := func(from, to string, ago time.Duration) v1alpha1.HistoryEntry {
		return v1alpha1.HistoryEntry{Pod: "a", From: from, To: to, Timestamp: metav1.NewTime(noon.Add(-ago))}
	}
	ago := func(lowered, resized time.Duration) changes { return changes{noon.Add(-lowered), noon.Add(-resized)} }
	rec := recommended("a", 2000, 64)
	assert.Zero(t, changesBefore(rec, pod))
	rec.Status.History = []v1alpha1.HistoryEntry{row("1", "1500m", time.Minute), row("2", "1500m", 5*time.Minute), row("3", "2", time.Hour)}
	assert.Equal(t, ago(5*time.Minute, time.Minute), changesBefore(rec, pod), "the newest that is no raise, and the newest")
	rec.Status.History = []v1alpha1.HistoryEntry{row("2, 64Mi", "3, 32Mi", time.Minute)}
	assert.Equal(t, ago(time.Minute, time.Minute), changesBefore(rec, pod), "in doubt it was lowered")
	createdWith := pod.DeepCopy()
	createdWith.CreationTimestamp = metav1.NewTime(noon)
	assert.Zero(t, changesBefore(rec, createdWith), "a namesake was lowered")
	rec.Status.History = nil
	for i := range v1alpha1.MaxHistory {
		other := row("1", "2", time.Duration(i+1)*time.Minute)
		other.Pod = "another"
		rec.Status.History = append(rec.Status.History, other)
	}
	assert.Equal(t, ago(20*time.Minute, 20*time.Minute), changesBefore(rec, pod), "the rows of its siblings may have displaced its own")
	rec.Status.History = rec.Status.History[1:]
	assert.Zero(t, changesBefore(rec, pod), "none was displaced")
	rec.Status.Records = []v1alpha1.ResizeRecord{{PodUID: "a", WrittenAt: metav1.NewTime(noon)}}
	assert.Equal(t, ago(0, 0), changesBefore(rec, pod))
}

// At most a tenth of the members of a node are evicted in an interval, and one pod of a workload at a time.
func TestVictimsWithinTheBudget(t *testing.T) {
	pods := []*corev1.Pod{member("a-1", size(1, 1, 1)), member("a-2", size(1, 1, 1)), member("b-1", size(1, 1, 1)), member("c-1", size(1, 1, 1))}
	s := sceneOf("8", 1000, pods...)
	s.recommendations["a-1"], s.recommendations["a-2"] = recommended("a", 1, 1), recommended("a", 1, 1)
	chosen := func(v victims, members int) (out []types.UID) {
		may := v.chooser(s, members)
		for _, pod := range pods {
			if may(pod) {
				out = append(out, pod.UID)
			}
		}
		return out
	}
	assert.Equal(t, []types.UID{"a-1"}, chosen(victims{}, 4))
	assert.Equal(t, []types.UID{"a-1", "b-1"}, chosen(victims{}, 29), "one of a at a time")
	assert.Equal(t, []types.UID{"a-1", "b-1", "c-1"}, chosen(victims{}, 200))

	// A pod that left counts for an interval; a pod that was chosen and stayed is chosen again.
	v := victims{chosen: []types.UID{"a-1", "gone"}}.settle(pods, 5*time.Minute, noon)
	assert.Equal(t, victims{gone: []time.Time{noon}}, v)
	assert.Empty(t, chosen(v, 4))
	v = v.settle(pods, 5*time.Minute, noon.Add(5*time.Minute))
	assert.Empty(t, v.gone)
	assert.Equal(t, []types.UID{"a-1"}, chosen(v, 4))

	// The room of a terminating pod may be enough.
	pods[3].DeletionTimestamp = &metav1.Time{Time: noon}
	assert.Empty(t, chosen(victims{}, 200))
	s.now = noon.Add(goesFor)
	assert.NotEmpty(t, chosen(victims{}, 200), "who does not go is not waited for")
	s.now = noon
	pods[3].Status.Phase = corev1.PodSucceeded
	assert.NotEmpty(t, chosen(victims{}, 200), "one that has ended leaves nothing")
	pods[3].Status.Phase = corev1.PodRunning
	assert.Len(t, victims{chosen: []types.UID{"c-1"}}.settle(pods, time.Minute, noon).gone, 1, "it is on its way")
}
