package policy

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// scraped is a source without data from before its start.
type scraped struct {
	since     time.Time
	workloads int
}

func (s scraped) Read(_ context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	for i := range s.workloads {
		series := usage.Series{Namespace: "shop", Pod: fmt.Sprintf("app-%06d-7d4f8c9b6-aaaaa", i), Container: "app"}
		for at := query.Start; !at.After(query.End); at = at.Add(query.Step) {
			if !at.Before(s.since) {
				swing := float64((at.Unix()/300*7919+int64(i)*104729)%1000) / 1000
				series.CPU = append(series.CPU, usage.Sample{At: at.UnixMilli(), Value: 0.1 + 0.1*swing})
				series.Memory = append(series.Memory, usage.Sample{At: at.UnixMilli(), Value: 2e8 * (1 + swing)})
			}
		}
		yield(series)
	}
	return usage.Report{}, nil
}

// lead returns the store of a leader with its own source that takes over from another one.
func lead(f *fleet, since time.Time, workloads int) *history.Store {
	histories := history.New(history.Options{
		Dial:    func(usage.SourceSettings) (usage.Source, error) { return scraped{since, workloads}, nil },
		Forgets: func(s usage.SourceSettings) bool { return s.Prometheus == nil },
	})
	f.History = histories
	return histories
}

// tick moves the clock, reads new usage and reconciles the policy.
func (f *fleet) tick(t *testing.T, histories *history.Store, d time.Duration) {
	t.Helper()
	f.clock.SetTime(f.clock.Now().Add(d))
	for histories.Refresh(context.Background(), f.clock.Now()) {
	}
	f.pass(t)
}

const step = 5 * time.Minute

// newLed is a fleet whose leader has read a week.
func newLed(t *testing.T, workloads int) (*fleet, *history.Store) {
	t.Helper()
	f := newFleet(t, workloads)
	histories := lead(f, today.Add(-1000*time.Hour), workloads)
	f.pass(t)
	f.tick(t, histories, 0)
	for _, rec := range f.memory.recommendations("shop") {
		require.NotNil(t, rec.Spec.Containers[0].Target.CPURequest)
		require.Len(t, rec.Spec.Checkpoints, 1)
		require.Equal(t, "app", rec.Spec.Checkpoints[0].Name)
		require.LessOrEqual(t, len(rec.Spec.Checkpoints[0].Data), history.MaxCheckpoint)
	}
	f.memory.written()
	return f, histories
}

// TestANewLeaderGoesOnFromTheCheckpoint although its source has no past usage: the recommendations and the confidence
// stay.
func TestANewLeaderGoesOnFromTheCheckpoint(t *testing.T) {
	const workloads = 5
	f, _ := newLed(t, workloads)
	before := f.memory.recommendations("shop")

	f.clock.SetTime(f.clock.Now().Add(40 * time.Minute))
	began := f.clock.Now()
	histories := lead(f, began, workloads)
	f.pass(t)
	f.tick(t, histories, 0)
	f.tick(t, histories, 2*time.Minute)
	assert.Zero(t, f.memory.written(), "it neither lowers nor holds anything for want of data")

	for range int(targets.RenewEvery/step) + 1 {
		f.tick(t, histories, step)
	}
	for i, rec := range f.memory.recommendations("shop") {
		was, is := before[i].Spec.Containers[0], rec.Spec.Containers[0]
		assert.Empty(t, is.Holds)
		assert.True(t, rec.Spec.DataUntil.After(began), "it goes on with what is new")
		assert.Equal(t, was.Confidence, is.Confidence)
		assert.InDelta(t, was.DataPoints, is.DataPoints, 20, "the gap between the leaders is all that is missing")
		a, b := podview.FromResources(was.Target), podview.FromResources(is.Target)
		for r := range a {
			assert.InEpsilon(t, float64(a[r].Request), float64(b[r].Request), 0.03)
		}
	}
}

// TestCheckpointsAreRenewed hourly, without additional writes.
func TestCheckpointsAreRenewed(t *testing.T) {
	const workloads, hours = 20, 5
	f, histories := newLed(t, workloads)
	for range hours * 12 {
		f.tick(t, histories, step)
		for _, rec := range f.memory.recommendations("shop") {
			assert.LessOrEqual(t, f.clock.Now().Sub(rec.Spec.Checkpoints[0].At.Time), targets.RenewEvery)
		}
	}
	specs, policies := f.memory.writes["patch AttuneRecommendation"], f.memory.writes["patch status AttunePolicy"]
	assert.GreaterOrEqual(t, specs, workloads*hours)
	// The workload loop answers each write with the generation that it has read.
	assert.LessOrEqual(t, specs+specs+policies, workloads*hours*3, "0.05 a minute and workload")
}

// TestNothingNewIsNotWritten: the history of a workload that is scaled to zero is not changed.
func TestNothingNewIsNotWritten(t *testing.T) {
	f, _ := newLed(t, 3)
	histories := lead(f, f.clock.Now().Add(1000*time.Hour), 3)
	f.pass(t)
	f.tick(t, histories, 2*targets.RenewEvery+time.Minute)
	f.memory.written()
	f.tick(t, histories, 2*time.Minute)
	f.tick(t, histories, time.Minute)
	assert.Zero(t, f.memory.written())
}

// TestABrokenCheckpointIsIgnored, and created again.
func TestABrokenCheckpointIsIgnored(t *testing.T) {
	f, _ := newLed(t, 1)
	rec := f.memory.recommendations("shop")[0].DeepCopy()
	rec.Spec.Checkpoints[0].Data[10] ^= 1
	f.memory.put(rec)
	histories := lead(f, f.clock.Now(), 1)
	f.pass(t)
	for range 14 {
		f.tick(t, histories, step)
	}
	after := f.memory.recommendations("shop")[0]
	require.Len(t, after.Spec.Checkpoints, 1)
	assert.NotEqual(t, rec.Spec.Checkpoints[0].Data, after.Spec.Checkpoints[0].Data)
	key := history.Key{Source: settingsOf(t, f).Digest(), Namespace: "shop", Kind: v1alpha1.KindDeployment, Workload: "app-000000", Container: "app"}
	assert.NoError(t, histories.Restore(key, rec.Spec.Checkpoints[0].Data, f.clock.Now()), "it was said once")
}

func settingsOf(t *testing.T, f *fleet) usage.SourceSettings {
	t.Helper()
	p := f.memory.objects["AttunePolicy/shop"]["all"].(*v1alpha1.AttunePolicy)
	settings, err := f.Settings.Settings(context.Background(), p)
	require.NoError(t, err)
	return settings.Source
}

// TestACheckpointOutlivesItsSource: a server that stores the past needs no new checkpoints, and the old one is kept
// while it has data in the window.
func TestACheckpointOutlivesItsSource(t *testing.T) {
	f, _ := newLed(t, 1)
	histories := history.New(history.Options{Dial: func(usage.SourceSettings) (usage.Source, error) { return scraped{f.clock.Now(), 1}, nil }})
	f.History = histories
	made := f.memory.recommendations("shop")[0].Spec.Checkpoints
	f.pass(t)
	f.tick(t, histories, 90*time.Minute)
	assert.Equal(t, made, f.memory.recommendations("shop")[0].Spec.Checkpoints)
	assert.Greater(t, f.memory.recommendations("shop")[0].Spec.Containers[0].DataPoints, int32(1900), "it goes on from it all the same")
	f.tick(t, histories, 7*24*time.Hour)
	assert.Empty(t, f.memory.recommendations("shop")[0].Spec.Checkpoints)
}

func TestPartialAnswerIsReported(t *testing.T) {
	r := report{policy: &v1alpha1.AttunePolicy{}, matched: matched{won: make([]workload.Workload, 2)}}
	assert.Equal(t, "watching 2 workloads", readiness{r}.condition().Message)
	r.usage.State.Last = usage.Report{Partial: true, Warnings: []string{"1 of 2 nodes cannot be scraped"}}
	assert.Equal(t, "watching 2 workloads; warning from the usage source: 1 of 2 nodes cannot be scraped", readiness{r}.condition().Message)
	assert.Equal(t, metav1.ConditionTrue, readiness{r}.condition().Status)
	r.usage.State.Last.Warnings = append(r.usage.State.Last.Warnings, "another", "third", "fourth")
	assert.Equal(t, "watching 2 workloads; warning from the usage source: 1 of 2 nodes cannot be scraped; another; and 2 more", readiness{r}.condition().Message)
	r.thinCPU = "thin"
	assert.Equal(t, "watching 2 workloads; warning from the usage source: thin; 1 of 2 nodes cannot be scraped; and 3 more", readiness{r}.condition().Message)
}

// TestAContainerThatWasNeverMeasured costs no writes: it has nothing to store in a checkpoint.
func TestAContainerThatWasNeverMeasured(t *testing.T) {
	const workloads, hours = 20, 5
	f, histories := newLed(t, workloads)
	for i := range workloads {
		f.deployment(fleetName(i), func(d *appsv1.Deployment) {
			waits := d.Spec.Template.Spec.Containers[0]
			waits.Name = "waits-for-its-image"
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, waits)
		})
	}
	f.tick(t, histories, step)
	f.memory.written()
	for range hours * 12 {
		f.tick(t, histories, step)
	}
	assert.LessOrEqual(t, f.memory.writes["patch AttuneRecommendation"], workloads*(hours+1))
}

// meanwhile is a history that changes during a decision.
type meanwhile struct {
	History
	happens func()
}

func (m *meanwhile) Profile(key history.Key, now time.Time) (recommender.Profile, bool) {
	p, known := m.History.Profile(key, now)
	if do := m.happens; do != nil {
		m.happens = nil
		do()
	}
	return p, known
}

// TestDataDuringADecisionIsNews: data that arrives during a decision is news for the next reconcile. A history that
// was not read yet does not count as empty, and a decision without it is not reused.
func TestDataDuringADecisionIsNews(t *testing.T) {
	f, _ := newLed(t, 1)
	before := f.memory.recommendations("shop")[0].Spec
	histories := lead(f, today.Add(-1000*time.Hour), 1)
	f.History = withoutCheckpoints{histories}
	f.pass(t) // now it is declared as needed
	refresh := func() {
		for histories.Refresh(t.Context(), f.clock.Now()) {
		}
	}
	between := &meanwhile{History: withoutCheckpoints{histories}, happens: refresh}
	f.History = between
	f.pass(t)
	after := f.memory.recommendations("shop")[0].Spec
	assert.Equal(t, before.Containers[0].Target, after.Containers[0].Target)
	assert.Empty(t, after.Containers[0].Holds)

	for range 3 {
		f.pass(t)
	}
	f.clock.SetTime(f.clock.Now().Add(step))
	between.happens = refresh
	f.policies.decided.Forget(client.ObjectKeyFromObject(f.policy()))
	f.pass(t)
	taken := 0
	f.Doubt = func(context.Context, string, bool) { taken++ }
	f.pass(t)
	assert.Zero(t, taken, "it knew nothing of the new step")
	f.pass(t)
	assert.Equal(t, 1, taken)
}

// scaled is a store in which an HPA scales each workload.
type scaled struct{ *history.Store }

func (s scaled) Want(of history.Interest) error {
	of.Workloads = slices.Clone(of.Workloads)
	for i := range of.Workloads {
		of.Workloads[i].Fleet = &history.Fleet{}
	}
	return s.Store.Want(of)
}

// TestTheHistoryOfReplicasIsStoredWithTheCheckpoints, without additional writes, and the next leader continues with it.
func TestTheHistoryOfReplicasIsStoredWithTheCheckpoints(t *testing.T) {
	const hours = 5
	f, _ := newLed(t, 1)
	histories := lead(f, f.clock.Now(), 1)
	f.History = scaled{histories}
	f.pass(t)
	f.memory.writes = map[string]int{}
	for range hours * 12 {
		f.tick(t, histories, step)
	}
	assert.LessOrEqual(t, f.memory.writes["patch AttuneRecommendation"], hours+2)
	stored := f.memory.recommendations("shop")[0].Spec.Checkpoints
	require.Len(t, stored, 1)
	require.NotEmpty(t, stored[0].Replicas)
	assert.LessOrEqual(t, len(stored[0].Replicas), 4096)

	next := lead(f, f.clock.Now(), 1)
	f.History = scaled{next}
	f.pass(t)
	key := history.Key{Source: settingsOf(t, f).Digest(), Namespace: "shop", Kind: v1alpha1.KindDeployment, Workload: "app-000000"}
	f.tick(t, next, step)
	assert.NotEmpty(t, next.Spans(key, recommender.CPU))
	assert.GreaterOrEqual(t, next.Covered(key, recommender.CPU).Known, (hours-2)*60)

	f.History = next // no HPA
	for range 14 {
		f.tick(t, next, step)
	}
	assert.Empty(t, f.memory.recommendations("shop")[0].Spec.Checkpoints[0].Replicas)
}
