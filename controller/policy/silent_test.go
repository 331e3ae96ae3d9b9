package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/recommender"
	"attune.io/attune/usage/history"
)

// ended is a history that ends at a time.
type ended struct {
	*past
	at time.Time
}

func (x ended) Profile(key history.Key, now time.Time) (recommender.Profile, bool) {
	if now.After(x.at) {
		now = x.at
	}
	return x.past.Profile(key, now)
}

// News changes with the newest sample.
func (x ended) News(history.Key) uint64 { return uint64(x.at.Unix()) }

// The loop finds in the cached pods whether any of them ran.
func TestLoopDistinguishesMissingDataFromStoppedPods(t *testing.T) {
	f := newFleet(t, 2)
	f.History = ended{newPast(), today}
	running := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "app-000001-5d4f8c7b9-x2x4z"}}
	running.Labels = map[string]string{"pod-template-hash": "5d4f8c7b9"}
	yes := true
	running.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app-000001-5d4f8c7b9", Controller: &yes}}
	running.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(today.Add(-time.Hour))}},
	}}
	f.memory.put(client.Object(running))
	f.pass(t)
	before := f.memory.recommendations("shop")
	for range 6 * 24 { // six days, an hour each
		f.clock.SetTime(f.clock.Now().Add(time.Hour))
		f.pass(t)
	}
	rest, silence := f.memory.recommendations("shop")[0], f.memory.recommendations("shop")[1]
	assert.Equal(t, []string{"cpu NotRunning", "memory NotRunning"}, reasons(rest.Spec.Containers[0]))
	assert.Equal(t, []string{"cpu StaleData", "memory StaleData"}, reasons(silence.Spec.Containers[0]))
	assert.True(t, rest.Spec.Seed.ValidUntil.After(f.clock.Now()), "new pods are sized")
	assert.True(t, before[1].Spec.Seed.ValidUntil.Equal(&silence.Spec.Seed.ValidUntil), "it is not renewed")
	writes := f.memory.written()
	assert.LessOrEqual(t, writes, 8, "in six days")
}

// A pod that starts 25 minutes after the last sample is not resized by it, because its usage may differ. Its own first
// sample ends that: the reconcile that the sample triggers drops the last decision and writes targets without holds.
func TestStartedWorkloadIsResizedWithItsFirstSample(t *testing.T) {
	f := newFleet(t, 1)
	look := func(at, sample time.Time) []string {
		f.History = ended{newPast(), sample}
		f.clock.SetTime(at)
		f.pass(t)
		return reasons(f.memory.recommendations("shop")[0].Spec.Containers[0])
	}
	started := today.Add(25 * time.Minute)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "app-000000-5d4f8c7b9-x2x4z", Labels: map[string]string{"pod-template-hash": "5d4f8c7b9"}}}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app-000000-5d4f8c7b9", Controller: ptr.To(true)}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}}}}
	f.memory.put(client.Object(pod))
	waits := []string{"cpu NotRunning", "memory NotRunning"}
	assert.Equal(t, waits, look(started.Add(10*time.Second), today))
	assert.Equal(t, waits, look(started.Add(4*time.Minute), today), "the same inputs again")
	assert.Empty(t, look(started.Add(5*time.Minute+time.Second), started.Add(5*time.Minute)))
	assert.Equal(t, []string{"cpu StaleData", "memory StaleData"}, look(started.Add(26*time.Minute), started.Add(5*time.Minute)), "no sample for 21 minutes in which it ran")
}

// A usage outage affects a workload whose pods each end after two minutes: they ran all the time, so the source is
// silent.
func TestShortLivedPodsRanAllTheSame(t *testing.T) {
	for name, tc := range map[string]struct {
		pods   int
		silent bool
	}{"a pod every three minutes": {20, true}, "three runs since": {3, false}} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 1)
			f.History = ended{newPast(), today}
			for i := range tc.pods {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("app-000000-5d4f8c7b9-", i), Labels: map[string]string{"pod-template-hash": "5d4f8c7b9"}}}
				yes := true
				pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app-000000-5d4f8c7b9", Controller: &yes}}
				from := today.Add(time.Duration(3*i) * time.Minute)
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					StartedAt: metav1.NewTime(from), FinishedAt: metav1.NewTime(from.Add(2 * time.Minute)),
				}}}}
				f.memory.put(client.Object(pod))
			}
			f.pass(t)
			f.clock.SetTime(f.clock.Now().Add(time.Hour))
			f.pass(t)
			want := "NotRunning"
			if tc.silent {
				want = "StaleData"
			}
			assert.Equal(t, []string{"cpu " + want, "memory " + want}, reasons(f.memory.recommendations("shop")[0].Spec.Containers[0]))
			assert.Equal(t, tc.silent, f.History.(ended).awaited.Load(), "usage is awaited where pods run without it")
			f.History = ended{f.History.(ended).past, f.clock.Now().Truncate(5 * time.Minute)}
			f.pass(t)
			assert.False(t, f.History.(ended).awaited.Load(), "until it comes")
		})
	}
}
