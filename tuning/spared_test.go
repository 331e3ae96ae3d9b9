package tuning_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/utils/ptr"

	"attune.io/attune/internal/policy"
	"attune.io/attune/tuning"
)

// Under a cluster policy, a running pod of system priority keeps what it has, even more than its template asks for.
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
