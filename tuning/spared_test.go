package tuning_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/utils/ptr"

	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning"
)

// Under a cluster policy, a running pod of system priority is never lowered, even if it has more than its template.
func TestCriticalPodsAreNotLowered(t *testing.T) {
	begun := func(priority int32, spared policy.Spared) []string {
		pod := running("web-1", big)
		pod.Spec.Priority = ptr.To(priority)
		w := eager(heading(seen(t, small, pod), small))
		w.Policy.Settings.Spared = spared
		return begun(tuning.Decide(w))
	}
	assert.Equal(t, []string{"web-1"}, begun(2_000_000_000, policy.SpareNone))
	assert.Equal(t, []string{"web-1"}, begun(1000, policy.SpareCritical))
	assert.Empty(t, begun(2_000_000_000, policy.SpareCritical))
	assert.Empty(t, begun(1000, policy.SpareAll))
}

// A node's share does not lower such a pod, but may raise it.
func TestCriticalPodsAreNotLoweredByTheirNode(t *testing.T) {
	moved := func(granted recommender.Size, priority int32, class string, spared policy.Spared) (to []recommender.Size) {
		pod := running("web-1", sizeOf(500, 0, 200, 400))
		pod.Spec.Priority, pod.Spec.PriorityClassName = ptr.To(priority), class
		w := sharing(t, granted, pod)
		w.Policy.Settings.Spared = spared
		for _, write := range tuning.Decide(w).Writes {
			for _, move := range write.Plan.Moves {
				to = append(to, move.To)
			}
		}
		return to
	}
	less, more := sizeOf(300, 0, 0, 0), sizeOf(600, 0, 0, 0)
	lowered, raised := []recommender.Size{sizeOf(300, 0, 200, 400)}, []recommender.Size{sizeOf(600, 0, 200, 400)}
	assert.Equal(t, lowered, moved(less, 2_000_000_000, "", policy.SpareNone))
	assert.Equal(t, lowered, moved(less, 1000, "", policy.SpareCritical))
	assert.Empty(t, moved(less, 2_000_000_000, "", policy.SpareCritical))
	assert.Empty(t, moved(less, 0, "system-node-critical", policy.SpareCritical))
	assert.Empty(t, moved(less, 1000, "", policy.SpareAll))
	assert.Equal(t, raised, moved(more, 1000, "", policy.SpareAll))
	assert.Empty(t, moved(sizeOf(500, 0, 100, 150), 2_000_000_000, "", policy.SpareCritical), "memory")
}
