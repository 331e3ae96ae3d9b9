package history_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/adaptive"
	"attune.io/attune/usage/history"
)

// restless usage has a gap of an hour, and no two equal steps.
func restless(scale float64) func(time.Time) (float64, bool) {
	return func(at time.Time) (float64, bool) {
		n := float64(at.Unix() / 300)
		return scale * (2 + math.Sin(n*1.7) + math.Cos(n*0.13)), at.Hour() != 3
	}
}

// A file's steps are rounded like the steps of a store, which reads them at once or one by one. The first day of a
// window of seven is an exception, because part of it may have left the store. The strategy Adaptive does not use that
// day, so its estimates are exactly equal.
func TestAsStoredIsWhatAStoreTells(t *testing.T) {
	assert.Nil(t, history.AsStored(nil, step))
	pod := web("aaaaa", restless(0.1))
	pod.memory, pod.peak = restless(1e8), restless(0.3)
	source, interest := &fake{pods: []fakePod{pod}}, deployment("web")
	interest.Source.HistoryWindow = 168 * time.Hour
	s := newStore(source)
	require.NoError(t, s.Want(interest))
	fill(t, s, now)
	key := key("web")
	key.Source = interest.Source.Digest()
	settings := recommender.Settings{HistoryWindow: 168 * time.Hour, QueryStep: step, Adaptive: recommender.AdaptiveSettings{Risk: 1}}
	for i := range 400 {
		now := now.Add(time.Duration(i) * step)
		s.Refresh(context.Background(), now)
		if i%7 > 0 {
			continue
		}
		raw := stepsOf(pod, now)
		stored, told := history.AsStored(raw, step), s.Steps(key)
		require.NotEqual(t, raw, stored, "older steps are packed")
		require.Equal(t, adaptive.Of(told, settings), adaptive.Of(stored, settings))
		require.Len(t, told, len(stored))
		require.Empty(t, cmp.Diff(told[288:], stored[288:], cmpopts.EquateNaNs()))
	}
}

// stepsOf a pod in the week that ends at a time.
func stepsOf(pod fakePod, now time.Time) (raw []recommender.StepUsage) {
	for at := now.Add(-168*time.Hour + step); !at.After(now); at = at.Add(step) {
		if cpu, ok := pod.cpu(at); ok {
			memory, _ := pod.memory(at)
			peak, _ := pod.peak(at)
			raw = append(raw, recommender.StepUsage{At: at, CPUCores: cpu, MemoryBytes: memory, CPUPeak: peak, MemoryPeak: math.NaN()})
		}
	}
	return raw
}
