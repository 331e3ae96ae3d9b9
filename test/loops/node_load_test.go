package loops

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	nodeloop "attune.io/attune/controller/node"
	"attune.io/attune/internal/event"
	"attune.io/attune/test/kubelet"
)

// load is that of one node's CPU; of others nothing is measured.
type load struct {
	node            string
	pressure, cores float64
}

func (l *load) Pressure(context.Context, time.Time) (map[string]float64, error) {
	return map[string]float64{l.node: l.pressure}, nil
}

func (l *load) Usage(context.Context, time.Time) (map[string]float64, error) {
	return map[string]float64{l.node: l.cores}, nil
}

func (*load) Load1(context.Context, time.Time) (map[string]float64, error) { return nil, nil }

// The load taint comes and goes on a real API server, beside the taint of somebody else who writes at the same time.
func TestNodeLoadTaintComesAndGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.secondNode(kubelet.Options{})
	clock := clocktesting.NewFakeClock(w.clock.Now())
	measured := &load{node: w.node.Name, pressure: 0.5}
	loop := &nodeloop.LoadLoop{Client: w.client, Loads: measured, Events: event.NewRecorder(w.told, clock), Clock: clock}
	node := func() *corev1.Node {
		n := &corev1.Node{}
		require.NoError(t, w.direct.Get(t.Context(), client.ObjectKey{Name: w.node.Name}, n))
		return n
	}
	theirs := corev1.Taint{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}
	ours := corev1.Taint{Key: v1alpha1.OverloadedTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule}
	first := node()
	first.Spec.Taints = []corev1.Taint{theirs}
	require.NoError(t, w.direct.Update(t.Context(), first))
	look := func(times int) {
		for range times {
			require.NoError(t, loop.Look(t.Context()))
			clock.Step(nodeloop.LoadEvery)
		}
	}
	look(10)
	assert.Equal(t, []corev1.Taint{theirs}, node().Spec.Taints, "somebody waits, and the node is idle")

	measured.cores = first.Status.Allocatable.Cpu().AsApproximateFloat64()
	look(4)
	assert.Equal(t, []corev1.Taint{theirs}, node().Spec.Taints, "not yet")
	look(1)
	assert.Equal(t, []corev1.Taint{theirs, ours}, node().Spec.Taints)
	assert.True(t, w.told.has("Warning NodeTainted Added taint attune.io/overloaded=true:NoSchedule"), w.told.lines)
	version := node().ResourceVersion
	look(10)
	assert.Equal(t, version, node().ResourceVersion, "nobody writes while nothing changes")

	carried := func() bool { return slices.Contains(node().Spec.Taints, ours) }
	cordoned := node()
	cordoned.Spec.Unschedulable = true
	require.NoError(t, w.direct.Update(t.Context(), cordoned))
	look(6)
	assert.True(t, carried(), "cordoned or not, as long as it is overloaded")
	measured.pressure = 0.01
	look(6)
	assert.False(t, carried())
	measured.pressure = 0.5
	look(6)
	assert.False(t, carried(), "who takes no pods is not tainted anew")
	assert.Equal(t, []corev1.Taint{theirs}, node().Spec.Taints)
	other := &corev1.Node{}
	require.NoError(t, w.direct.Get(t.Context(), client.ObjectKey{Name: w.other.Name}, other))
	assert.NotContains(t, other.Spec.Taints, ours)
}
