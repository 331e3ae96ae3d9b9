package policy

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage/history"
)

// The recommendations of a cluster often start together. They are renewed once an hour, and never many at once.
func TestUnchangedTargetsAreStoredHourly(t *testing.T) {
	const workloads, hours = 120, 2
	f := newFleet(t, workloads)
	f.pass(t)
	f.memory.written()
	passes, all, most := 0, 0, 0
	for range hours * int(time.Hour/step) {
		f.clock.SetTime(f.clock.Now().Add(step))
		f.pass(t)
		n := f.memory.writes["patch AttuneRecommendation"]
		f.memory.written()
		passes, all, most = passes+1, all+n, max(most, n)
	}
	assert.GreaterOrEqual(t, all, workloads*hours)
	assert.LessOrEqual(t, all, workloads*hours*5/4)
	assert.LessOrEqual(t, most, 2*all/passes, "spread over the hour")
	for _, rec := range f.memory.recommendations("shop") {
		assert.LessOrEqual(t, f.clock.Now().Sub(rec.Spec.DataUntil.Time), targets.RenewEvery)
	}
}

// Confirmed has the newest data time of targets, even if it is not stored.
func TestStoredTargetsAreConfirmed(t *testing.T) {
	f := newFleet(t, 3)
	f.Confirmed = &board.Confirmed{}
	f.pass(t)
	stored := map[types.NamespacedName]time.Time{}
	for _, rec := range f.memory.recommendations("shop") {
		key := types.NamespacedName{Namespace: rec.Namespace, Name: rec.Name}
		stored[key] = rec.Spec.DataUntil.Time
		assert.Zero(t, f.Confirmed.Of(key), "what is written tells itself")
	}
	for range 12 {
		f.clock.SetTime(f.clock.Now().Add(step))
		f.pass(t)
		for _, rec := range f.memory.recommendations("shop") {
			key := types.NamespacedName{Namespace: rec.Namespace, Name: rec.Name}
			if rec.Spec.DataUntil.Time.Equal(stored[key]) {
				assert.Equal(t, f.clock.Now(), f.Confirmed.Of(key))
			} else {
				assert.Equal(t, f.clock.Now(), rec.Spec.DataUntil.Time)
			}
			stored[key] = rec.Spec.DataUntil.Time
		}
	}
}

// A new leader knows only the stored data times, which may be too old to act on although the data is not. Once it has
// read the history, it wakes the recommendations whose targets are valid, and writes nothing for that.
func TestNewLeaderWakesWorkloadsWithValidTargets(t *testing.T) {
	const workloads = 20
	f := newFleet(t, workloads)
	f.pass(t)
	f.memory.written()
	f.clock.SetTime(f.clock.Now().Add(25 * time.Minute))
	var woken []types.NamespacedName
	f.Confirmed, f.Reconfirmed = &board.Confirmed{}, func(name types.NamespacedName) { woken = append(woken, name) }

	reading := f.History
	f.History = unread{newPast()}
	f.pass(t)
	assert.Zero(t, f.memory.written(), "it keeps what it cannot know yet")
	assert.Empty(t, woken, "and has nobody act on it")

	f.History = reading
	f.pass(t)
	renewed := f.memory.writes["patch AttuneRecommendation"]
	assert.Len(t, woken, workloads-renewed)
	assert.Less(t, renewed, workloads/2+1, "those whose turn has come")
	woken = nil
	f.clock.SetTime(f.clock.Now().Add(step))
	f.pass(t)
	assert.Empty(t, woken, "once is enough")
}

// A history that is being read again, or is not settled, confirms nothing new: earlier confirmations stay.
func TestConfirmedTargetsStayConfirmed(t *testing.T) {
	f := newFleet(t, 3)
	f.Confirmed = &board.Confirmed{}
	f.pass(t)
	confirmed := map[types.NamespacedName]time.Time{}
	for range 4 {
		f.clock.SetTime(f.clock.Now().Add(step))
		f.pass(t)
	}
	for _, rec := range f.memory.recommendations("shop") {
		key := types.NamespacedName{Namespace: rec.Namespace, Name: rec.Name}
		confirmed[key] = f.Confirmed.Of(key)
	}
	require.Contains(t, slices.Collect(maps.Values(confirmed)), f.clock.Now(), "by more than what is stored")
	f.History = unread{newPast()}
	f.pass(t)
	for key, until := range confirmed {
		assert.Equal(t, until, f.Confirmed.Of(key))
	}
}

// The history of other workloads does not matter to a workload: a new workload without history blocks no targets.
func TestANewNeighbourStopsNoTargets(t *testing.T) {
	f := newFleet(t, 3)
	f.Confirmed = &board.Confirmed{}
	f.pass(t)
	f.clock.SetTime(f.clock.Now().Add(step))
	f.History = unreadBut{newPast(), "app-000001"}
	f.pass(t)
	rec := f.memory.recommendations("shop")[1]
	require.Equal(t, "app-000001", rec.Spec.Workload.Name)
	key := types.NamespacedName{Namespace: rec.Namespace, Name: rec.Name}
	assert.Equal(t, f.clock.Now(), f.Confirmed.Of(key))
}

// unreadBut is a history in which only one workload's past has been read.
type unreadBut struct {
	*past
	read string
}

func (u unreadBut) Read(key history.Key) bool { return key.Workload == u.read }

// unread is a history whose past has not been read.
type unread struct{ *past }

func (unread) Read(history.Key) bool { return false }

func (unread) Profile(history.Key, time.Time) (recommender.Profile, bool) {
	return recommender.Profile{}, false
}

// While there is no target, the status shows only the progress of the data.
func TestProgressIsStoredMoreOften(t *testing.T) {
	f := newFleet(t, 1)
	f.History = young{newPast()}
	f.pass(t)
	rec := f.memory.recommendations("shop")[0]
	require.False(t, podview.HasTarget(rec.Spec))
	f.memory.written()
	for range int(2 * time.Hour / step) {
		f.clock.SetTime(f.clock.Now().Add(step))
		f.pass(t)
	}
	assert.Equal(t, int(2*time.Hour/(targets.RenewEarly*4/5)), f.memory.writes["patch AttuneRecommendation"])
}

// young is a history with less data than is needed.
type young struct{ *past }

func (y young) Profile(key history.Key, now time.Time) (recommender.Profile, bool) {
	profile, ok := y.past.Profile(key, now)
	for r := range profile.Of {
		profile.Of[r].Points = 3
	}
	return profile, ok
}

// The minimum that a container of 24 GiB learned from an OOM kill decays by some MiB in each step. It is not
// stored in each step.
func TestDecayOfALargeFloorIsStoredRarely(t *testing.T) {
	const days = 2
	worlds := map[string]func(*fleet){
		"free": func(*fleet) {},
		"an HPA scales on memory": func(f *fleet) {
			f.Autoscalers = held{{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: fleetName(0)}, MaxReplicas: 9,
				Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceMemory, Target: autoscalingv2.MetricTarget{AverageUtilization: ptr.To(int32(80))}}}},
			}}}
		},
	}
	for name, arrange := range worlds {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 1)
			arrange(f)
			f.pass(t)
			rec := f.memory.recommendations("shop")[0].DeepCopy()
			rec.Status.Floors = []v1alpha1.Floor{kill(31 << 30)}
			rec.Status.Floors[0].LearnedAt = metav1.NewTime(f.clock.Now())
			f.memory.put(rec)
			f.pass(t)
			require.NotNil(t, f.memory.recommendations("shop")[0].Spec.Containers[0].MemoryLimitFloor)
			f.memory.written()
			for range days * int(24*time.Hour/step) {
				f.clock.SetTime(f.clock.Now().Add(step))
				f.pass(t)
			}
			assert.LessOrEqual(t, f.memory.writes["patch AttuneRecommendation"], days*24*5/4+2<<30/(31<<22), "once an hour, and for each 124 MiB of 2 GiB")
		})
	}
}

// held is a cluster with these HPAs.
type held []autoscalingv2.HorizontalPodAutoscaler

func (h held) Of(_ context.Context, w workload.Workload) (autoscale.Holds, error) {
	return autoscale.Autoscalers{HPAs: h}.Of(w), nil
}
