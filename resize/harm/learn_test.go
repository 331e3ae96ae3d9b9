package harm

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
	"attune.io/attune/resize"
)

func TestLearnHarm(t *testing.T) {
	both := size(250, 500, 256, 512)
	for _, tc := range []struct {
		name    string
		to      recommender.Size
		verdict resize.Verdict
		want    [2]recommender.Amount
	}{
		{"OOM: 1.3 times what killed", both, resize.Verdict{Harm: resize.HarmOOM, Container: "app", Ceiling: 500 * mi}, [2]recommender.Amount{0, 650 * mi}},
		{"throttling: 1.3 times the limit", both, resize.Verdict{Harm: resize.HarmThrottle, Container: "app"}, [2]recommender.Amount{650, 0}},
		{"throttling without a limit: of the request", size(250, 0, 256, 512), resize.Verdict{Harm: resize.HarmThrottle, Container: "app"}, [2]recommender.Amount{325, 0}},
		{"restarts: what it had, of what was lowered", desired, resize.Verdict{Harm: resize.HarmRestart, Container: "app"}, [2]recommender.Amount{500, 0}},
		{"not ready: the same", both, resize.Verdict{Harm: resize.HarmNotReady}, [2]recommender.Amount{500, 512 * mi}},
		{"guardrails: the same", both, resize.Verdict{Harm: resize.HarmSLO}, [2]recommender.Amount{500, 512 * mi}},
		{"after a raise there is nothing to stay above", size(1000, 2000, 512, 1024), resize.Verdict{Harm: resize.HarmNotReady}, [2]recommender.Amount{}},
		{"another container", both, resize.Verdict{Harm: resize.HarmOOM, Container: "side", Ceiling: 500 * mi}, [2]recommender.Amount{}},
		{"no harm", both, resize.Verdict{}, [2]recommender.Amount{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			floors := LearnHarm(nil, tc.verdict, recorded(tc.to), false, noon)
			got := resize.FloorsOf(floors, "app", noon)
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
			assert.Equal(t, floors, LearnHarm(floors, tc.verdict, recorded(tc.to), false, noon.Add(time.Hour)), "learning it again changes nothing")
		})
	}
}

func TestLearnKillsCountsEachOnce(t *testing.T) {
	pod := resized(prior, last(ended("OOMKilled", "app-0", 0, time.Second)))
	floors := LearnKills(nil, pod, nil, nil, noon)
	require.Len(t, floors, 1)
	assert.Equal(t, v1alpha1.Floor{
		Container: "app", Resource: "memory", Amount: podview.Quantity(recommender.Memory, recommender.OOMFloor(1024*mi)), Reason: "oomkill",
		LearnedAt: metav1.NewTime(noon.Add(-59 * time.Second)), Evidence: "containerd://app-0@2026-03-04T11:59:01Z", TemplateHash: podview.TemplateHash(pod),
	}, floors[0])
	bigger := resized(size(500, 1000, 1024, 2048), done(size(500, 1000, 1024, 2048)), last(ended("OOMKilled", "app-0", 0, time.Second)))
	assert.Equal(t, floors, LearnKills(floors, bigger, nil, nil, noon), "the kill that was answered by a raise is not one at the raised limit")
	last(ended("OOMKilled", "app-1", 0, 30*time.Second))(bigger)
	assert.Len(t, LearnKills(floors, bigger, nil, nil, noon), 2)
}

// A kill at the low limit may be seen only after the old limit was restored: no higher minimum is learned from it.
func TestOOMKillDuringARevert(t *testing.T) {
	pod := resized(prior, done(prior), last(ended("OOMKilled", "app-1", 0, 30*time.Second)))
	at := func(limit recommender.Amount, records ...v1alpha1.ResizeRecord) {
		t.Helper()
		floors := LearnKills(nil, pod, records, nil, noon)
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

func TestRegressionAndItsOOMKillAreOne(t *testing.T) {
	pod := resized(desired, done(desired), last(ended("OOMKilled", "app-0", -time.Hour, time.Second)))
	v := Judge(pod, recorded(desired), noon, auto(), Signals{})
	floors := LearnKills(nil, pod, nil, nil, noon)
	assert.Equal(t, floors, LearnHarm(floors, v, recorded(desired), false, noon))
}

// A server that a tenant chose may invent throttling and kills of child processes. It cannot invent a status of the pod.
func TestMeasuredRegressionsOfAPolicysServerTeachNoMoreThanThePodHad(t *testing.T) {
	before := resize.Changes(recorded(desired))[0].Prior
	for harm, r := range map[resize.Harm]recommender.Resource{resize.HarmThrottle: recommender.CPU, resize.HarmOOM: recommender.Memory} {
		v := resize.Verdict{Harm: harm, Measured: true, Container: "app", At: noon, Ceiling: 64 << 30}
		desired := desired
		desired[recommender.CPU].Limit = 64_000
		learned := func(v resize.Verdict, ofPolicy bool) recommender.Amount {
			return resize.FloorsOf(LearnHarm(nil, v, recorded(desired), ofPolicy, noon), "app", noon)[r].Amount
		}
		assert.Greater(t, learned(v, false), before[r].Request, harm)
		assert.LessOrEqual(t, learned(v, true), before[r].Request, harm)
		v.Measured = false
		assert.Greater(t, learned(v, true), before[r].Request, "%s: the pod's status shows it", harm)
	}
}

func TestFloorsFade(t *testing.T) {
	floors := LearnHarm(nil, resize.Verdict{Harm: resize.HarmThrottle, Container: "app", At: noon}, recorded(desired), false, noon)
	assert.Equal(t, recommender.Decay(650, noon, noon.Add(7*24*time.Hour)), resize.FloorsOf(floors, "app", noon.Add(7*24*time.Hour))[recommender.CPU].Amount)
	assert.Less(t, resize.FloorsOf(floors, "app", noon.Add(7*24*time.Hour))[recommender.CPU].Amount, recommender.Amount(650))
	later := noon.Add(floorLasts + time.Second)
	assert.Empty(t, addFloors(floors, nil, later), "what is faded is forgotten")
	assert.Empty(t, resize.FloorsOf(floors, "side", noon)[recommender.CPU].Amount)
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
