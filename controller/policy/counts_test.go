package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// A workload counts as resized if it has a verified size. The strategy Node verifies none for a workload: there its
// history decides.
func TestWorkloadsThatWereResized(t *testing.T) {
	row := func(result, reason string) v1alpha1.HistoryEntry {
		return v1alpha1.HistoryEntry{Pod: "web-1", Result: result, Reason: reason}
	}
	success, failed, undone := row(lifecycle.ResultSuccess, ""), row(lifecycle.ResultFailed, ""), row(lifecycle.ResultSuccess, lifecycle.ReasonUndo)
	for name, tc := range map[string]struct {
		strategy v1alpha1.Strategy
		kept     bool
		history  []v1alpha1.HistoryEntry
		want     int32
	}{
		"a kept size":                       {kept: true, want: 1},
		"none":                              {want: 0},
		"one that was not kept":             {history: []v1alpha1.HistoryEntry{success}, want: 0},
		"Node: nothing yet":                 {strategy: v1alpha1.StrategyNode, want: 0},
		"Node: a success":                   {strategy: v1alpha1.StrategyNode, history: []v1alpha1.HistoryEntry{success}, want: 1},
		"Node: a success, then a failure":   {strategy: v1alpha1.StrategyNode, history: []v1alpha1.HistoryEntry{failed, success}, want: 1},
		"Node: failures":                    {strategy: v1alpha1.StrategyNode, history: []v1alpha1.HistoryEntry{failed, failed}, want: 0},
		"Node: taken back":                  {strategy: v1alpha1.StrategyNode, history: []v1alpha1.HistoryEntry{row(lifecycle.ResultReverted, "oomkill")}, want: 0},
		"Node: undone":                      {strategy: v1alpha1.StrategyNode, history: []v1alpha1.HistoryEntry{failed, undone, success}, want: 0},
		"Node: undone, and resized again":   {strategy: v1alpha1.StrategyNode, history: []v1alpha1.HistoryEntry{success, undone, success}, want: 1},
		"Node: a boost that was taken back": {strategy: v1alpha1.StrategyNode, history: []v1alpha1.HistoryEntry{row(lifecycle.ResultSuccess, resize.ReasonBoost)}, want: 0},
	} {
		rec := v1alpha1.AttuneRecommendation{}
		rec.Spec.Strategy, rec.Status.History = tc.strategy, tc.history
		if tc.kept {
			rec.Status.Verified = []v1alpha1.VerifiedResources{{Name: "app"}}
		}
		r := report{recommendations: []v1alpha1.AttuneRecommendation{rec}, matched: matched{won: make([]workload.Workload, 1)}}
		assert.Equal(t, tc.want, r.counts().Resized, name)
	}
}
