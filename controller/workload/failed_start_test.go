package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// A pod that crashes from its creation on blocks the rollout, so that no other pod is created: it gets the resources
// of its template.
func TestPodThatCrashesSinceItsCreationGetsTemplateResources(t *testing.T) {
	for name, change := range map[string]func(*tuning.View){
		"in a rollout":                     func(w *tuning.View) { w.Workload.Rollout.InProgress = true },
		"without one":                      func(*tuning.View) {},
		"while the cluster is paused":      func(w *tuning.View) { w.Policy.Settings.Resize.Paused = []string{"cluster"} },
		"of a workload that pauses itself": func(w *tuning.View) { w.Rec.Status.Paused = &v1alpha1.PausedState{Since: metav1.NewTime(now)} },
	} {
		t.Run(name, func(t *testing.T) {
			pod := born(t, running("web-1", seedSize), "r1", template)
			pod.CreationTimestamp = metav1.NewTime(now.Add(-3 * time.Minute))
			w := seen(t, template, endedBefore(pod, "Error", 2, time.Minute))
			change(&w)
			d := tuning.Decide(w)
			require.Len(t, d.Writes, 1)
			assert.Equal(t, []resize.Move{{Container: "app", From: seedSize, To: template}}, d.Writes[0].Plan.Moves)
			require.Len(t, d.Status.Records, 1)
			assert.Equal(t, resize.WaveTemplate, d.Status.Records[0].Wave)
			assert.Contains(t, strings.Join(told(d), "\n"), "Restoring the template's resources of pod web-1, which was created with less and crashes:")
		})
	}
	for name, change := range map[string]func(*tuning.View, *corev1.Pod){
		"autoRevert is off":                func(w *tuning.View, _ *corev1.Pod) { w.Policy.Settings.Resize.AutoRevert = false },
		"mode Initial":                     func(w *tuning.View, _ *corev1.Pod) { w.Policy.Settings.Resize.Mode = v1alpha1.UpdateInitial },
		"skipped":                          func(_ *tuning.View, p *corev1.Pod) { p.Annotations[v1alpha1.SkipAnnotation] = "true" },
		"it was resized since":             func(_ *tuning.View, p *corev1.Pod) { p.Generation = 2 },
		"it is being deleted":              func(w *tuning.View, p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} },
		"one restart is no crash loop":     func(_ *tuning.View, p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 1 },
		"it crashes a day after its birth": func(_ *tuning.View, p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-24 * time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			pod := born(t, running("web-1", seedSize), "r1", template)
			pod.CreationTimestamp = metav1.NewTime(now.Add(-3 * time.Minute))
			pod = endedBefore(pod, "Error", 2, time.Minute)
			w := seen(t, template, pod)
			w.Workload.Rollout.InProgress = true
			change(&w, w.Pods[0])
			for _, write := range tuning.Decide(w).Writes {
				assert.NotEqual(t, resize.WaveTemplate, write.Plan.Wave)
			}
		})
	}
}
