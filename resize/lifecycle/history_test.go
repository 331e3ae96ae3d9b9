package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	. "attune.io/attune/resize"
	. "attune.io/attune/resize/lifecycle"
)

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
