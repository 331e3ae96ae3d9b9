package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/tuning"
)

// Checks that could not be made at the end of an observation are reported, a regression is reverted, and a success is
// silent.
func TestTheEndOfAWatchSaysWhatWasNotJudged(t *testing.T) {
	needs := func(cpu recommender.Amount) map[string]recommender.Amount {
		return map[string]recommender.Amount{"app": cpu}
	}
	failed := map[harm.Question]harm.Answer{{Name: "latency"}: {Failed: "timeout"}}
	for name, tc := range map[string]struct {
		signals harm.Signals
		edit    func(r *v1alpha1.ResizeRecord)
		told    []string
		floor   recommender.Amount
	}{
		"nothing is known of CPU": {told: []string{"Normal Resized Observation of pod web-1 ended: not checked: CPU of container app (needs PSI: cgroup v2, a kernel with PSI and Kubernetes 1.34 or newer)"}},
		"nor was it ready before": {edit: func(r *v1alpha1.ResizeRecord) { r.Baseline[0].Ready = false },
			told: []string{"Normal Resized Observation of pod web-1 ended: not checked: CPU of container app (needs PSI: cgroup v2, a kernel with PSI and Kubernetes 1.34 or newer), readiness, because container app was not ready before the resize"}},
		"the node has CPU to spare": {signals: harm.Signals{CPUUsage: needs(400), NodeBusy: 0.5}},
		"it is squeezed": {signals: harm.Signals{CPUUsage: needs(400), NodeBusy: 0.95}, floor: 390,
			told: []string{"Warning Reverted Reverting the resize of pod web-1: throttle: container app uses 400m of CPU, more than its request of 300m, on a node whose CPU is 95 % busy"}},
		"a guardrail never answered": {signals: harm.Signals{NodeBusy: 0.5, Answers: failed}, edit: func(r *v1alpha1.ResizeRecord) { r.Extended = true },
			told: []string{"Warning Resized Observation of pod web-1 ended: the pod keeps its resources, but they are not verified: SLO guardrail latency could not be checked: timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := resized(t, v1alpha1.RecordWatching, sizeOf(300, 0, 512, 0))
			record := &w.Rec.Status.Records[0]
			record.VerifiedOnce, record.WatchUntil = &metav1.Time{Time: now.Add(-6 * time.Minute)}, &metav1.Time{Time: now}
			if tc.edit != nil {
				tc.edit(record)
			}
			w.Policy.Settings.Resize.Guardrails = []v1alpha1.SLOGuardrail{{Name: "latency", Comparison: "<", Threshold: "1"}}
			w.Usage.Signals = map[string]harm.Signals{"web-1": tc.signals}
			d := tuning.Decide(w)
			assert.Equal(t, tc.told, told(d))
			assert.Equal(t, tc.floor, resize.FloorsOf(d.Status.Floors, "app", now)[recommender.CPU].Amount)
			assert.Equal(t, tc.floor > 0, len(d.Writes) == 1, "only harm is taken back")
		})
	}
}

// A resize that the node found infeasible starts no cooldown, like one that the API server refused.
func TestWhatWasInfeasibleCoolsNothingDown(t *testing.T) {
	for reason, cools := range map[string]bool{resize.ReasonInfeasible: false, resize.ReasonDeferred: true} {
		w := resized(t, v1alpha1.RecordWithdrawing, sizeOf(500, 0, 512, 0))
		w.Rec.Status.Records[0].Reason = reason
		d := tuning.Decide(w)
		require.Len(t, d.Status.History, 1, reason)
		assert.Equal(t, "Withdrawn", d.Status.History[0].Result)
		assert.Equal(t, cools, d.Status.CooldownFrom != nil, reason)
		assert.Empty(t, d.Writes, "nor is the same asked again")
		if !cools {
			require.Len(t, tuning.Refused(w).Of(), 1)
			assert.Equal(t, resize.ReasonInfeasible, tuning.Refused(w).Of()[0].Reason)
			assert.Equal(t, now.Add(time.Hour), tuning.Refused(w).Of()[0].Until)
		}
	}
}
