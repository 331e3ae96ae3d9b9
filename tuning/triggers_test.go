package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/tuning"
	"attune.io/attune/tuning/tuningtest"
)

// A new trigger is one row of harm.Triggers: its query is sent before the resize, the record stores the result, and the
// resize is reverted if the result is much higher at the end of the observation period.
func TestATriggerComparesWithAResultFromBeforeTheResize(t *testing.T) {
	query := tuningtest.Rise(t)
	w := eager(crowd(t, 1))
	assert.Equal(t, []harm.Question{query}, tuning.Decide(w).Unknowns.Before)
	for name, tc := range map[string]struct {
		answers map[harm.Question]harm.Answer
		want    []v1alpha1.Measurement
	}{
		"a result":  {map[harm.Question]harm.Answer{query: {Value: 0.2}}, []v1alpha1.Measurement{{Name: "p99", Value: "0.2"}}},
		"no answer": {map[harm.Question]harm.Answer{query: {Failed: "timeout"}}, nil},
		"no source": {map[harm.Question]harm.Answer{}, nil},
	} {
		w.Looked.Before = tc.answers
		d := tuning.Decide(w)
		assert.Empty(t, d.Unknowns.Before, name)
		require.Len(t, d.Status.Records, 1, name)
		assert.Equal(t, tc.want, d.Status.Records[0].Measured, name)
	}

	for after, want := range map[float64][]string{
		0.25: nil,
		0.27: {"Warning Reverted Reverting the resize of pod web-1: rise: p99 rose from 0.2 to 0.27"},
	} {
		w := judged(t)
		w.Rec.Status.Records[0].Measured = []v1alpha1.Measurement{{Name: "p99", Value: "0.2"}}
		w.Usage.Signals["web-1"] = harm.Signals{
			Throttle: map[string]float64{"app": 0}, OOMEvents: map[string]float64{"app": 0}, Answers: map[harm.Question]harm.Answer{query: {Value: after}},
		}
		d := tuning.Decide(w)
		assert.Equal(t, want, told(d), after)
		floors := resize.FloorsOf(d.Status.Floors, "app", now)
		assert.Equal(t, map[bool]recommender.Amount{true: 500}[want != nil], floors[recommender.CPU].Amount, after)
	}
}

// An answer to an OOM kill waits for no usage source.
func TestAnUrgentResizeHasNoResultFromBefore(t *testing.T) {
	tuningtest.Rise(t)
	from := sizeOf(500, 1000, 512, 1024)
	w := eager(heading(seen(t, from, endedBefore(running("web-1", from), "OOMKilled", 1, time.Minute)), sizeOf(500, 1000, 700, 1400)))
	w.Part = tuning.UrgentPart
	w.Looked.Rooms["node-1"] = resize.RoomOf(w.Pods, nil, now)
	d := tuning.Decide(w)
	assert.True(t, d.Unknowns.None())
	require.Len(t, d.Status.Records, 1)
	assert.Empty(t, d.Status.Records[0].Measured)
}
