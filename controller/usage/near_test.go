package usage

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"attune.io/attune/usage/prometheus"
)

// near returns the pods of each refresh in turn, and then ends the loop.
type near struct {
	looks []prometheus.NearPods
	clock *clocktesting.FakeClock
	end   context.CancelFunc
}

func (n *near) Refresh(context.Context, time.Time) (prometheus.NearPods, error) {
	pods := n.looks[0]
	n.looks = n.looks[1:]
	if len(n.looks) == 0 {
		n.end()
	} else {
		n.clock.Step(nearEvery)
	}
	return pods, nil
}

// Only the workloads of pods that have grown are woken, and the limit is reported once.
func TestWhatHasGrownIsLookedAt(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	var lines []string
	ctx = logr.NewContext(ctx, funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	clock := clocktesting.NewFakeClock(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	web := prometheus.NearPod{Namespace: "shop", Name: "web-1"}
	source := &near{looks: []prometheus.NearPods{{}, {Grown: []prometheus.NearPod{web}, Left: 7}, {Left: 9}}, clock: clock, end: end}
	var told []prometheus.NearPod
	loop := &NearLoop{Near: source, Clock: clock, Tell: func(_ context.Context, pod prometheus.NearPod) { told = append(told, pod) }}
	require.NoError(t, loop.Start(ctx))
	assert.Equal(t, []prometheus.NearPod{web}, told)
	require.Len(t, lines, 1)
	assert.Contains(t, lines[0], `"untracked"=7`)
	assert.InDelta(t, 9, testutil.ToFloat64(left), 0)

	loop.showLeft(ctx, 3, clock.Now().Add(leftEvery))
	assert.Len(t, lines, 2)
	loop.showLeft(ctx, 0, clock.Now().Add(3*leftEvery))
	assert.Len(t, lines, 2)
	assert.Zero(t, testutil.ToFloat64(left))
}
