package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
)

// TestStartupBoost: a pod is born with three times the CPU that its workload needs, and gives it back in place:
// the same pod with the same container, which its kernel then gives less. A pod that was there before has nothing
// to give back, and is left alone.
func TestStartupBoost(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "boost", true)
	usual := size{cpu: "60m", memory: fitting.memory, cpuLimit: "120m", memoryLimit: fitting.memoryLimit}
	boosted := usual
	boosted.cpu, boosted.cpuLimit = "180m", "360m"
	d, old := started(t, "boost", 1, idle(usual), func(s *corev1.PodSpec) { onNode(s, staticNode) })
	fit(t, d, func(s *v1alpha1.AttunePolicySpec) {
		// What its past says, 30m and more for want of confidence, is below the least: there is nothing to do but to boost.
		s.CPU.MinAllowed, s.CPU.MaxAllowed = ptr.To(resource.MustParse(usual.cpu)), ptr.To(resource.MustParse("1"))
		s.CPU.StartupBoost = &v1alpha1.StartupBoost{Multiplier: "3", Duration: *duration(20 * time.Second)}
	})
	eventually(t, "new pods are boosted", func() error { return createdWith(ctx, d, boosted) })
	scale(ctx, t, d, 2)
	var p *corev1.Pod
	for _, each := range pods(ctx, t, d) {
		if each.UID != old.UID {
			p = &each
		}
	}
	require.NotNil(t, p)
	container := p.Status.ContainerStatuses[0].ContainerID
	eventually(t, "given back", func() error { return hasSpec(t, p, usual) })
	assert.Equal(t, container, p.Status.ContainerStatuses[0].ContainerID)
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
	assert.Equal(t, int64(2), p.Generation, "in one patch")
	assert.NoError(t, hasQuota(p, "app", 12_000))
	assert.NoError(t, hasWeight(p, "app", 60))

	eventually(t, "watched, and kept so", func() error { return told(ctx, d, "Success", "StartupBoost") })
	rows, err := rowsOf(ctx, d, "Success")
	require.NoError(t, err)
	require.Len(t, rows, 1)
	assert.Equal(t, p.Name, rows[0].Pod)
	assert.Equal(t, "cpu", rows[0].Resource)
	assert.Contains(t, rows[0].From, "180m", "what it was born with")
	assert.Contains(t, rows[0].To, "60m")
	require.NoError(t, hasSpec(t, old, usual))
	assert.Equal(t, int64(1), old.Generation)
	require.NoError(t, hasSpec(t, p, usual))
	assert.Equal(t, int64(2), p.Generation)
	assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	assert.Empty(t, rec.Status.Verified, "a boost proves nothing")

	crash(t, p)
	killed := time.Now()
	eventually(t, "boosted again after a restart", func() error { return hasSpec(t, p, boosted) })
	t.Logf("restarted to boosted %s", time.Since(killed).Round(100*time.Millisecond))
	eventually(t, "the container has it", func() error { return hasWeight(p, "app", 180) })
	eventually(t, "given back again", func() error { return hasSpec(t, p, usual) })
	eventually(t, "the container gave it back", func() error { return hasWeight(p, "app", 60) })
	assert.EqualValues(t, 1, p.Status.ContainerStatuses[0].RestartCount, "nothing else restarted it")
}
