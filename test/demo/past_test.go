package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
	"attune.io/attune/usage/history"
)

func TestThePastFitsIntoCheckpoints(t *testing.T) {
	for _, h := range habits {
		rec := h.recommendation(now)
		past, err := codec.UnpackCheckpoint(rec.Spec.Checkpoints[0].Data)
		require.NoError(t, err)
		assert.Equal(t, 1, past.Stride, "%s: each minute has a value of its own", h.workload)
		assert.LessOrEqual(t, past.Error, 0.04, h.workload)
		assert.Len(t, past.CPU, int(week/step))
		assert.Equal(t, now, usage.StepEnd(past.First+int64(len(past.CPU))-1, step))
	}
}

func TestTheOperatorTakesThePast(t *testing.T) {
	h := habits[0]
	rec := h.recommendation(now)
	store := history.New(history.Options{Forgets: func(usage.SourceSettings) bool { return true }})
	settings := usage.SourceSettings{HistoryWindow: week, QueryStep: step, RateWindow: 5 * step}
	store.Want(history.Interest{Policy: h.policy, Namespace: namespace, Source: settings, Workloads: []history.Workload{{Kind: rec.Spec.Workload.Kind, Name: h.workload}}})
	key := history.Key{Source: settings.Digest(), Namespace: namespace, Kind: rec.Spec.Workload.Kind, Workload: h.workload, Container: container}
	require.NoError(t, store.Restore(key, rec.Spec.Checkpoints[0].Data, now))
	profile, known := store.Profile(key, now)
	require.True(t, known)
	assert.Equal(t, now, profile.Last)
}
