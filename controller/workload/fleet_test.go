package workload

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// scrapedFleet returns the metrics of the loop about all workloads.
func scrapedFleet(t *testing.T, l *lab) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&l.c.memory.meters.fleet)
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

// The running pods, their savings and the reasons of blocked workloads are shown as they are now, and are removed
// with the recommendation.
func TestFiguresOfTheFleet(t *testing.T) {
	template, has := sizeOf(500, 0, 512, 0), sizeOf(200, 0, 256, 0)
	w := resized(t, v1alpha1.RecordWatching, has)
	w.Rec.Status.Records = nil
	w.Pods[0].Spec.Containers[0].Resources = podview.ToRequirements(has)
	w.Pods[0].Status.Phase, w.Pods[0].Generation, w.Pods[0].Status.ObservedGeneration = corev1.PodRunning, 2, 2
	paused := deploymentOf(template, 1)
	paused.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"}
	l := newLab(t, w.Rec, paused, w.Pods[0])
	assert.Empty(t, scrapedFleet(t, l), "no workload has been looked at")

	l.pass()
	assert.Equal(t, []string{
		"attune_pods{shop} 1", "attune_resizes_blocked{WorkloadPaused} 1",
		"attune_saved_cpu_cores{shop} 0.3", "attune_saved_memory_bytes{shop} 2.68435456e+08",
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

// Pods keep their sizes when their policy becomes unusable: their savings still count, as on the page and in the
// plugin.
func TestPodsOfAnUnusablePolicyStillSave(t *testing.T) {
	saved := []string{"attune_pods{shop} 0", "attune_saved_cpu_cores{shop} 0.3", "attune_saved_memory_bytes{shop} 2.68435456e+08"}
	for name, spoil := range map[string]func(*lab){
		"invalid": func(l *lab) {
			change(l, "all", &v1alpha1.AttunePolicy{}, func(p *v1alpha1.AttunePolicy) {
				p.Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{Percentile: ptr.To[int32](1000)}}
			})
		},
		"deleted": func(l *lab) {
			p := &v1alpha1.AttunePolicy{}
			p.Namespace, p.Name = "shop", "all"
			require.NoError(l.t, l.api.Delete(l.t.Context(), p))
		},
	} {
		t.Run(name, func(t *testing.T) {
			has := sizeOf(200, 0, 256, 0)
			w := resized(t, v1alpha1.RecordWatching, has)
			w.Rec.Status.Records = nil
			w.Rec.Status.Originals = []v1alpha1.Originals{{TemplateHash: "abc", Since: ptr.To(metav1.NewTime(now)), Containers: []v1alpha1.ContainerResources{{
				Name: "app", Resources: podview.ToResources(sizeOf(500, 0, 512, 0)),
			}}}}
			w.Pods[0].Spec.Containers[0].Resources = podview.ToRequirements(has)
			w.Pods[0].Status.Phase, w.Pods[0].Generation, w.Pods[0].Status.ObservedGeneration = corev1.PodRunning, 2, 2
			paused := deploymentOf(sizeOf(500, 0, 512, 0), 1)
			paused.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"}
			l := newLab(t, w.Rec, paused, w.Pods[0])
			l.pass()
			assert.Subset(t, scrapedFleet(t, l), []string{"attune_pods{shop} 1", "attune_resizes_blocked{WorkloadPaused} 1"})
			spoil(l)
			l.pass()
			assert.Equal(t, saved, scrapedFleet(t, l))
		})
	}
}

// Each reason of attune's own is a value of the label, and no other text is.
func TestReasonsOfBlockedResizes(t *testing.T) {
	require.Greater(t, len(resize.Reasons), 90)
	for reason := range resize.Reasons { // which has all constants: resize's TestEveryReasonHasAMeaningAndALifter
		assert.Equal(t, reason, blockedReason(reason))
	}
	assert.Equal(t, "NoRoom", blockedReason("NoRoom"))
	assert.Equal(t, blockedOther, blockedReason("OurPolicyEngineSays"+lifecycle.ReasonUndo))
}
