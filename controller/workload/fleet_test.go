package workload

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize/lifecycle"
)

// scrapedFleet is what the loop shows of all workloads.
func scrapedFleet(t *testing.T, l *lab) []string {
	t.Helper()
	shownFleet.Store(&l.c.meters.fleet)
	t.Cleanup(func() { shownFleet.Store(nil) })
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(fleetCollector{})
	families, err := registry.Gather()
	require.NoError(t, err)
	var lines []string
	for _, family := range families {
		for _, series := range family.GetMetric() {
			lines = append(lines, fmt.Sprintf("%s{%s} %v", family.GetName(), series.GetLabel()[0].GetValue(), series.GetGauge().GetValue()))
		}
	}
	return lines
}

// What runs, what it saves and what blocks it are shown as they are now, and go with the recommendation.
func TestFiguresOfTheFleet(t *testing.T) {
	template, has := sizeOf(500, 0, 512, 0), sizeOf(200, 0, 256, 0)
	w := resized(t, v1alpha1.RecordWatching, has)
	w.Rec.Status.Records = nil
	w.Pods[0].Spec.Containers[0].Resources = podview.ToRequirements(has)
	w.Pods[0].Status.Phase = corev1.PodRunning
	paused := deploymentOf(template, 1)
	paused.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"}
	l := newLab(t, w.Rec, paused, w.Pods[0])
	assert.Empty(t, scrapedFleet(t, l), "no workload has been looked at")

	l.pass()
	assert.Equal(t, []string{
		"attune_pods{shop} 1", "attune_resizes_blocked{WorkloadPaused} 1",
		"attune_savings_realised_cpu_cores{shop} 0.3", "attune_savings_realised_memory_bytes{shop} 2.68435456e+08",
	}, scrapedFleet(t, l))

	require.NoError(t, l.api.Delete(t.Context(), l.pod(w.Pods[0].Name)))
	l.pass()
	assert.Contains(t, scrapedFleet(t, l), "attune_pods{shop} 0", "it is known that none runs")

	rec := l.rec()
	rec.Finalizers = nil
	require.NoError(t, l.api.Update(t.Context(), rec))
	require.NoError(t, l.api.Delete(t.Context(), rec))
	l.pass()
	assert.Empty(t, scrapedFleet(t, l))
}

// Each reason of the operator's own is a value of the label, and no word of others is.
func TestReasonsOfBlockedResizes(t *testing.T) {
	source, err := os.ReadFile("../../resize/reasons.go")
	require.NoError(t, err)
	listed, err := os.ReadFile("blocked.go")
	require.NoError(t, err)
	names := regexp.MustCompile(`(?m)^(?:\t|const )(Reason[A-Za-z]+) +=`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(names), 60)
	for _, name := range names {
		assert.Regexp(t, `\bresize\.`+name[1]+`\b`, string(listed))
	}
	assert.Equal(t, "NoRoom", blockedReason("NoRoom"))
	assert.Equal(t, blockedOther, blockedReason("OurPolicyEngineSays"+lifecycle.ReasonUndo))
}
