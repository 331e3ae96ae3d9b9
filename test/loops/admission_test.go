package loops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
)

// admission: Disabled withdraws the seed. Pods that were sized earlier keep their resources; new pods get those of their
// template, and are then resized as running pods.
func TestLoopsResizeRunningPodsWithoutAdmission(t *testing.T) {
	t.Parallel()
	w := shrinking(t, 3)
	w.seeded = true
	w.auto(lowersCPU)
	w.until(6*time.Hour, "all pods are resized, and new pods are created with the same size", func() bool {
		rec := w.recommendation()
		return rec.Spec.Seed != nil && !rec.Spec.Seed.RaiseOnly && w.lowered() == 3 && w.idle()
	})
	w.scale("web", 4)
	w.settle()
	before := w.uids()
	for _, pod := range w.pods() {
		if _, sized := pod.Annotations[v1alpha1.SeededAnnotation]; sized {
			assert.Less(t, cpuRequest(&pod), int64(500))
		}
	}

	resized := w.generations()
	w.change("all", func(s *v1alpha1.AttunePolicySpec) { s.Admission = ptr.To(v1alpha1.Disabled) })
	w.settle()
	assert.Nil(t, w.recommendation().Spec.Seed)
	assert.Equal(t, v1alpha1.ReasonAdmissionDisabled, w.recommendation().Spec.SeedBlocked)
	assert.Equal(t, v1alpha1.Disabled, w.thePolicy("all").Status.Admission)
	w.run(24*time.Hour, time.Hour)
	assert.Equal(t, resized, w.generations(), "the pods keep their resources")

	w.scale("web", 6)
	w.settle()
	created := 0
	for _, pod := range w.pods() {
		if !contains(before, pod.UID) {
			created++
			assert.Equal(t, int64(500), cpuRequest(&pod), "created as its template says")
			assert.NotContains(t, pod.Annotations, v1alpha1.SeededAnnotation)
		}
	}
	assert.Equal(t, 2, created)
	w.until(6*time.Hour, "the new pods are resized", func() bool { return w.lowered() == 6 && w.idle() })
}
