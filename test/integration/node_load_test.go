package integration

import (
	"context"
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

// pressure is that of one node's CPU; of others nothing is measured.
type pressure struct {
	node string
	of   float64
}

func (p *pressure) Pressure(context.Context, time.Time) (map[string]float64, error) {
	return map[string]float64{p.node: p.of}, nil
}

func (*pressure) Load1(context.Context, time.Time) (map[string]float64, error) { return nil, nil }
func (*pressure) Usage(context.Context, time.Time) (map[string]float64, error) { return nil, nil }

// The load taint comes and goes on a real API server, beside the taint of somebody else who writes at the same time.
func TestNodeLoadTaintComesAndGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.secondNode(kubelet.Options{})
	clock := clocktesting.NewFakeClock(w.clock.Now())
	measured := &pressure{node: w.node.Name, of: 0.5}
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
	look(4)
	assert.Equal(t, []corev1.Taint{theirs}, node().Spec.Taints, "not yet")
	look(1)
	assert.Equal(t, []corev1.Taint{theirs, ours}, node().Spec.Taints)
	assert.True(t, w.told.has("Warning NodeTainted Tainted with attune.io/overloaded=true:NoSchedule"), w.told.lines)
	version := node().ResourceVersion
	look(10)
	assert.Equal(t, version, node().ResourceVersion, "nobody writes while nothing changes")

	measured.of = 0.01
	look(6)
	assert.Equal(t, []corev1.Taint{theirs}, node().Spec.Taints)
	other := &corev1.Node{}
	require.NoError(t, w.direct.Get(t.Context(), client.ObjectKey{Name: w.other.Name}, other))
	assert.NotContains(t, other.Spec.Taints, ours)
}
