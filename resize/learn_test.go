package resize

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

func TestLearnHarm(t *testing.T) {
	both := size(250, 500, 256, 512)
	for _, tc := range []struct {
		name    string
		to      recommender.Size
		verdict Verdict
		want    [2]recommender.Amount
	}{
		{"OOM: 1.3 times what killed", both, Verdict{Harm: HarmOOM, Container: "app", Ceiling: 500 * mi}, [2]recommender.Amount{0, 650 * mi}},
		{"throttling: 1.3 times the limit", both, Verdict{Harm: HarmThrottle, Container: "app"}, [2]recommender.Amount{650, 0}},
		{"throttling without a limit: of the request", size(250, 0, 256, 512), Verdict{Harm: HarmThrottle, Container: "app"}, [2]recommender.Amount{325, 0}},
		{"restarts: what it had, of what was lowered", desired, Verdict{Harm: HarmRestart, Container: "app"}, [2]recommender.Amount{500, 0}},
		{"not ready: the same", both, Verdict{Harm: HarmNotReady}, [2]recommender.Amount{500, 512 * mi}},
		{"guardrails: the same", both, Verdict{Harm: HarmSLO}, [2]recommender.Amount{500, 512 * mi}},
		{"after a raise there is nothing to stay above", size(1000, 2000, 512, 1024), Verdict{Harm: HarmNotReady}, [2]recommender.Amount{}},
		{"another container", both, Verdict{Harm: HarmOOM, Container: "side", Ceiling: 500 * mi}, [2]recommender.Amount{}},
		{"no harm", both, Verdict{}, [2]recommender.Amount{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			floors := LearnHarm(nil, tc.verdict, recorded(tc.to), noon)
			got := FloorsOf(floors, "app", noon)
			for _, r := range recommender.Resources {
				assert.Equal(t, tc.want[r], got[r].Amount, r)
				if tc.want[r] > 0 {
					assert.Equal(t, string(tc.verdict.Harm), got[r].Reason)
				}
			}
			for _, f := range floors {
				assert.Equal(t, "uid-1@2026-03-04T11:59:00Z", f.Evidence, "one resize harms once")
				assert.Equal(t, noon, f.LearnedAt.Time)
			}
			assert.Equal(t, floors, LearnHarm(floors, tc.verdict, recorded(tc.to), noon.Add(time.Hour)), "learning it again changes nothing")
		})
	}
}

func TestLearnKillsCountsEachOnce(t *testing.T) {
	pod := resized(prior, last(ended("OOMKilled", "app-0", 0, time.Second)))
	floors := LearnKills(nil, pod, nil, noon)
	require.Len(t, floors, 1)
	assert.Equal(t, v1alpha1.Floor{
		Container: "app", Resource: "memory", Amount: podview.Quantity(recommender.Memory, recommender.OOMFloor(1024*mi)), Reason: "oomkill",
		LearnedAt: metav1.NewTime(noon.Add(-59 * time.Second)), Evidence: "containerd://app-0@2026-03-04T11:59:01Z",
	}, floors[0])
	bigger := resized(size(500, 1000, 1024, 2048), done(size(500, 1000, 1024, 2048)), last(ended("OOMKilled", "app-0", 0, time.Second)))
	assert.Equal(t, floors, LearnKills(floors, bigger, nil, noon), "the kill that was answered by a raise is not one at the raised limit")
	last(ended("OOMKilled", "app-1", 0, 30*time.Second))(bigger)
	assert.Len(t, LearnKills(floors, bigger, nil, noon), 2)
}

// A kill at the low limit may be seen only when the old limit is back: it does not teach more than that.
func TestAKillWhileAPodIsPutBack(t *testing.T) {
	pod := resized(prior, done(prior), last(ended("OOMKilled", "app-1", 0, 30*time.Second)))
	at := func(limit recommender.Amount, records ...v1alpha1.ResizeRecord) {
		t.Helper()
		floors := LearnKills(nil, pod, records, noon)
		require.Len(t, floors, 1)
		assert.Equal(t, recommender.OOMFloor(limit), podview.AmountOf(recommender.Memory, floors[0].Amount))
	}
	lowered := size(250, 500, 256, 512)
	record, low := recorded(lowered), lowered[recommender.Memory].Limit
	require.Less(t, low, prior[recommender.Memory].Limit)
	at(prior[recommender.Memory].Limit)
	at(prior[recommender.Memory].Limit, record)
	record.Phase = v1alpha1.RecordReverting
	at(low, record)
	record.PodUID = "another"
	at(prior[recommender.Memory].Limit, record)
}

func TestAHarmAndTheKillItWasAreOne(t *testing.T) {
	pod := resized(desired, done(desired), last(ended("OOMKilled", "app-0", -time.Hour, time.Second)))
	v := Judge(pod, recorded(desired), noon, auto(), Signals{})
	floors := LearnKills(nil, pod, nil, noon)
	assert.Equal(t, floors, LearnHarm(floors, v, recorded(desired), noon))
}

func TestFloorsFade(t *testing.T) {
	floors := LearnHarm(nil, Verdict{Harm: HarmThrottle, Container: "app", At: noon}, recorded(desired), noon)
	assert.Equal(t, recommender.Decay(650, noon, noon.Add(7*24*time.Hour)), FloorsOf(floors, "app", noon.Add(7*24*time.Hour))[recommender.CPU].Amount)
	assert.Less(t, FloorsOf(floors, "app", noon.Add(7*24*time.Hour))[recommender.CPU].Amount, recommender.Amount(650))
	later := noon.Add(floorLasts + time.Second)
	assert.Empty(t, addFloors(floors, nil, later), "what is faded is forgotten")
	assert.Empty(t, FloorsOf(floors, "side", noon)[recommender.CPU].Amount)
}

func TestFloorsAreCapped(t *testing.T) {
	var floors []v1alpha1.Floor
	great := v1alpha1.Floor{Container: "app", Resource: "memory", Amount: quantity("4Gi"), LearnedAt: *ago(time.Hour), Evidence: "great"}
	for i := range 100 {
		if i == 20 {
			floors = addFloors(floors, []v1alpha1.Floor{great}, noon)
		}
		small := v1alpha1.Floor{Container: "app", Resource: "memory", Amount: quantity("1Gi"), LearnedAt: *ago(time.Duration(100-i) * time.Second), Evidence: fmt.Sprint(i)}
		floors = addFloors(floors, []v1alpha1.Floor{small}, noon)
	}
	assert.Len(t, floors, mostFloors)
	assert.Contains(t, floors, great, "the greatest stays, however old")
	evidence := map[string]bool{}
	for _, f := range floors {
		evidence[f.Evidence] = true
	}
	assert.True(t, evidence["99"], "of the rest the newest stay, for their evidence")
	assert.False(t, evidence["0"])
}

func TestCooldownLeft(t *testing.T) {
	rules := Rules{Cooldown: time.Hour}
	for reverts, want := range map[int32]time.Duration{0: 1, 1: 2, 2: 4, 3: 8, 4: 16, 5: 16, 1 << 30: 16} {
		left := CooldownLeft(ago(0), &v1alpha1.Backoff{ConsecutiveReverts: reverts}, rules, noon)
		assert.Equal(t, want*time.Hour, left, "after %d reverts", reverts)
	}
	assert.Equal(t, time.Hour, CooldownLeft(ago(0), nil, rules, noon))
	assert.Equal(t, time.Minute, CooldownLeft(ago(59*time.Minute), nil, rules, noon))
	assert.Zero(t, CooldownLeft(ago(time.Hour), nil, rules, noon))
	assert.Zero(t, CooldownLeft(ago(48*time.Hour), nil, rules, noon))
	assert.Zero(t, CooldownLeft(nil, &v1alpha1.Backoff{ConsecutiveReverts: 9}, rules, noon), "no wave yet")
	assert.Equal(t, 2*time.Hour, CooldownLeft(ago(-time.Hour), nil, rules, noon), "16: a wave that ended in the future")
}

func TestMoreBackoff(t *testing.T) {
	one := MoreBackoff(nil, recorded(desired), noon)
	assert.Equal(t, &v1alpha1.Backoff{ConsecutiveReverts: 1, Since: metav1.NewTime(noon)}, one)
	later := recorded(desired, func(r *v1alpha1.ResizeRecord) { r.WrittenAt = metav1.NewTime(noon.Add(time.Hour)) })
	assert.Equal(t, int32(2), MoreBackoff(one, later, noon.Add(2*time.Hour)).ConsecutiveReverts)
	assert.Equal(t, one, MoreBackoff(one, recorded(desired), noon.Add(time.Minute)), "another pod of the same trial")
	assert.True(t, EndsBackoff(one, later))
	assert.False(t, EndsBackoff(one, recorded(desired)), "a survivor of the trial that was reverted")
	second := secondPatch(recorded(desired), noon.Add(time.Hour))
	assert.Equal(t, one, MoreBackoff(one, second, noon.Add(2*time.Hour)), "its second patch came later")
	assert.False(t, EndsBackoff(nil, later))
	assert.Equal(t, int32(1), one.ConsecutiveReverts)
}

func TestKeep(t *testing.T) {
	kept := Keep(nil, recorded(desired), nil, noon)
	want := []v1alpha1.KeptSize{{Name: "app", Size: podview.ToResources(desired), Since: metav1.NewTime(noon), TemplateHash: "abc"}}
	require.Equal(t, want, kept)
	assert.Equal(t, want, Keep(kept, recorded(desired), nil, noon.Add(time.Hour)), "kept since the first time")
	smaller := size(200, 400, 512, 1024)
	again := Keep(kept, recorded(smaller), nil, noon.Add(time.Hour))
	require.Len(t, again, 1)
	assert.Equal(t, podview.ToResources(smaller), again[0].Size)
	assert.Equal(t, noon.Add(time.Hour), again[0].Since.Time)
	other := Keep(kept, recorded(desired, func(r *v1alpha1.ResizeRecord) { r.TemplateHash = "def" }), nil, noon.Add(time.Hour))
	assert.Equal(t, "def", other[0].TemplateHash, "a new template generation")
	assert.Equal(t, want, kept, "the list given stays as it is")

	// desired is 250m of at most 500m, and 512 MiB of at most 1 GiB.
	for _, tc := range []struct {
		harm     Harm
		resource recommender.Resource
		amount   recommender.Amount
		keeps    bool
	}{
		{HarmThrottle, recommender.CPU, 501, false}, {HarmThrottle, recommender.CPU, 500, true},
		{HarmOOM, recommender.Memory, 1025 * mi, false}, {HarmOOM, recommender.Memory, 1000 * mi, true},
		{HarmNotReady, recommender.CPU, 251, false}, {HarmRestart, recommender.Memory, 513 * mi, false}, {HarmSLO, recommender.CPU, 250, true},
	} {
		floor := v1alpha1.Floor{Container: "app", Resource: tc.resource.String(), Amount: podview.Quantity(tc.resource, tc.amount), Reason: string(tc.harm), LearnedAt: metav1.NewTime(noon)}
		assert.Equal(t, tc.keeps, len(Keep(nil, recorded(desired), []v1alpha1.Floor{floor}, noon)) == 1, "%s %d", tc.harm, tc.amount)
		floor.Container = "other"
		assert.Len(t, Keep(nil, recorded(desired), []v1alpha1.Floor{floor}, noon), 1, "another container's")
	}
}

func TestDegraded(t *testing.T) {
	rows := func(results ...string) []v1alpha1.HistoryEntry {
		var list []v1alpha1.HistoryEntry
		for i, result := range results {
			for _, container := range []string{"app", "side"} { // one resize has a row per container
				list = append(list, v1alpha1.HistoryEntry{Pod: "web-1", Container: container, Result: result, Timestamp: *ago(time.Duration(i) * time.Minute)})
			}
		}
		return list
	}
	bad, good := ResultReverted, ResultSuccess
	for _, tc := range []struct {
		name    string
		history []v1alpha1.HistoryEntry
		want    bool
	}{
		{"nothing", nil, false},
		{"two reverts", rows(bad, bad), false},
		{"three reverts", rows(bad, bad, bad), true},
		{"three of five", rows(bad, good, bad, good, bad), true},
		{"two of five", rows(bad, good, bad, good, good), false},
		{"the sixth is too old", rows(bad, good, bad, good, good, bad), false},
		{"withdrawn and superseded ones say nothing", rows(bad, ResultWithdrawn, bad, ResultSuperseded, ResultWithdrawn, ResultWithdrawn, bad), true},
	} {
		assert.Equal(t, tc.want, Degraded(tc.history), tc.name)
	}
}

func TestHistoryRows(t *testing.T) {
	pod := running(prior, prior, prior)
	plan := mustPlan(t, pod, []podview.Container{
		{Name: "app", Size: size(250, 500, 700, 1400)}, {Name: "side-1", Size: size(0, 2000, 0, 0)}, {Name: "side-2", Size: size(0, 0, 700, 0)},
	})
	record := NewRecord(plan, pod, noon, auto())
	row := func(container, what, from, to string) v1alpha1.HistoryEntry {
		return v1alpha1.HistoryEntry{
			Timestamp: metav1.NewTime(noon), Workload: "web", Pod: "web-1", Container: container, Resource: what, From: from, To: to,
			Method: MethodInPlace, Result: ResultReverted, Reason: "oomkill",
		}
	}
	assert.Equal(t, []v1alpha1.HistoryEntry{
		row("app", "cpu+memory", "500m, 512Mi", "250m, 700Mi"),
		row("side-1", "cpu", "limit 1", "limit 2"),
		row("side-2", "memory", "512Mi", "700Mi"),
	}, HistoryRows("web", record, ResultReverted, "oomkill", noon))
	assert.Equal(t, MethodEviction, HistoryRows("web", record, ResultEvicted, "", noon)[0].Method)
	assert.Empty(t, HistoryRows("web", record, "", ReasonReplaced, noon), "1: a pod that is gone is no failure")
}

func TestAddHistory(t *testing.T) {
	var history []v1alpha1.HistoryEntry
	for i := range 30 {
		history = AddHistory(history, []v1alpha1.HistoryEntry{{Pod: fmt.Sprint(i)}})
	}
	require.Len(t, history, v1alpha1.MaxHistory)
	assert.Equal(t, "29", history[0].Pod, "newest first")
	assert.Equal(t, "10", history[19].Pod)
}
