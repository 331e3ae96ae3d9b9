package usage_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
)

func TestSamplesThatCannotBeTrueAreDropped(t *testing.T) {
	const gib = 1 << 30
	node := usage.MostOn(8, 32*gib)
	for name, tc := range map[string]struct {
		most   usage.Most
		value  float64
		memory bool
		want   usage.Drop
	}{
		"CPU of 0 is a measurement":              {node, 0, false, ""},
		"memory of 0 is not":                     {node, 0, true, usage.DropZero},
		"memory of a byte":                       {node, 1, true, ""},
		"just under the bound":                   {node, 12, false, ""},
		"40 cores of interleaved counters":       {node, 40, false, usage.DropImplausible},
		"just above the bound":                   {node, 12.001, false, usage.DropImplausible},
		"memory just under the bound":            {node, 48 * gib, true, ""},
		"memory above the bound":                 {node, 48*gib + 1, true, usage.DropImplausible},
		"no node is known":                       {usage.Most{}, 1600, false, ""},
		"no node is known, 10,001 cores":         {usage.Most{}, 10_001, false, usage.DropImplausible},
		"no node is known, 64 TiB":               {usage.Most{}, 64 << 40, true, ""},
		"no node is known, more":                 {usage.Most{}, 65 << 40, true, usage.DropImplausible},
		"only CPU is known":                      {usage.MostOn(8, 0), 1 << 40, true, ""},
		"negative":                               {node, -1, true, usage.DropNegative},
		"not a number":                           {node, math.NaN(), false, usage.DropNotANumber},
		"infinite":                               {node, math.Inf(1), false, usage.DropInfinite},
		"negative zero of memory is 0 bytes too": {node, math.Copysign(0, -1), true, usage.DropZero},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, tc.most.DropOf(tc.value, tc.memory)) })
	}
}

// TestSamplesAboveTheLimitInForceAreDropped: a limit and a node bound a sample only if they were in force all the time
// that it was measured over.
func TestSamplesAboveTheLimitInForceAreDropped(t *testing.T) {
	const gib, window = 1 << 30, 5 * time.Minute
	largest := usage.MostOn(48, 192*gib)
	created := time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)
	known := usage.Facts{
		Created: created.UnixMilli(), Node: usage.Most{Cores: 16, Bytes: 64 * gib},
		Limit: usage.Most{Cores: 2, Bytes: gib}, LimitSince: created.Add(time.Hour).UnixMilli(),
	}
	moved, young := time.Hour+window, window
	unlimited := known
	unlimited.Limit = usage.Most{}
	for name, tc := range map[string]struct {
		facts  usage.Facts
		after  time.Duration // since created
		value  float64
		memory bool
		want   usage.Drop
		bound  float64
	}{
		"40 cores at a limit of 2 of a deleted pod":     {usage.Facts{}, moved, 40, false, "", 0},
		"73 cores of a deleted pod":                     {usage.Facts{}, moved, 73, false, usage.DropImplausible, 72},
		"interleaved counters below the largest node":   {known, moved, 40, false, usage.DropNode, 24},
		"a glitch below the node":                       {known, moved, 20, false, usage.DropLimit, 3},
		"1.5 times the limit":                           {known, moved, 3, false, "", 0},
		"the limit was higher for a part of the window": {known, moved - time.Second, 20, false, "", 0},
		"the node is known from the creation on":        {known, young, 40, false, usage.DropNode, 24},
		"an earlier pod of the same name, larger node":  {known, young - time.Second, 40, false, "", 0},
		"no limit":                {unlimited, moved, 20, false, "", 0},
		"memory above the limit":  {known, moved, 1.6 * gib, true, usage.DropLimit, 1.5 * gib},
		"memory above the node":   {known, moved, 65 * gib, true, usage.DropNode, 64 * gib},
		"memory above every node": {usage.Facts{}, moved, 300 * gib, true, usage.DropImplausible, 288 * gib},
		"the largest integer":     {known, moved, math.MaxInt64, true, usage.DropNode, 64 * gib},
		"memory of 0":             {known, moved, 0, true, usage.DropZero, 0},
		"CPU of 0":                {known, moved, 0, false, "", 0},
		"negative":                {known, moved, -1, false, usage.DropNegative, 0},
	} {
		t.Run(name, func(t *testing.T) {
			drop := tc.facts.DropOf(usage.Sample{At: created.Add(tc.after).UnixMilli(), Value: tc.value}, tc.memory, largest, window)
			assert.Equal(t, tc.want, drop)
			assert.InDelta(t, tc.bound, tc.facts.Bound(drop, tc.memory, largest), 1e-9)
		})
	}
}

func TestJudgeWraps(t *testing.T) {
	facts := usage.Facts{Started: 7}
	judge := usage.Judge{
		Most: func() usage.Most { return usage.MostOn(8, 0) },
		Of:   func(string, string, string) usage.Facts { return facts },
	}
	asked := &recorder{}
	_, err := judge.Wrap(asked).Read(t.Context(), usage.Query{Step: time.Minute}, nil)
	require.NoError(t, err)
	assert.Equal(t, usage.Most{Cores: 12}, asked.query.Most)
	assert.Equal(t, facts, asked.query.Of("shop", "web-1", "app"))
	assert.Equal(t, time.Minute, asked.query.Step)
}

type recorder struct{ query usage.Query }

func (r *recorder) Read(_ context.Context, query usage.Query, _ func(usage.Series)) (usage.Report, error) {
	r.query = query
	return usage.Report{}, nil
}

func TestCPUOfTheStartIsLeftOut(t *testing.T) {
	const minute = int64(60_000)
	var samples []usage.Sample
	for i := range int64(10) {
		samples = append(samples, usage.Sample{At: i * 5 * minute, Value: float64(i)})
	}
	for name, tc := range map[string]struct {
		started  int64
		restarts int
		before   int // samples
		left     int
	}{
		"not known":         {0, 0, 10, 0},
		"before the answer": {-20 * minute, 0, 0, 0},
		// Until the minute 12+2+5 a window overlaps the start.
		"in the middle":              {12 * minute, 1, 3, 1},
		"at the end of a step":       {10 * minute, 1, 3, 1},
		"just before it":             {10*minute - 1, 1, 2, 2},
		"at the end":                 {44 * minute, 0, 9, 1},
		"after the answer":           {60 * minute, 0, 10, 0},
		"four restarts a day":        {12 * minute, 4, 10, 0},
		"the answer begins after it": {-4 * minute, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := usage.Series{Started: tc.started, Restarts: tc.restarts}
			before, after, left := s.AroundStart(samples, 2*time.Minute, 5*time.Minute)
			assert.ElementsMatch(t, samples[tc.before:tc.before+tc.left], left)
			assert.Equal(t, samples[:tc.before], before)
			assert.ElementsMatch(t, samples[tc.before+tc.left:], after)
		})
	}
}

func TestDropsHaveLabels(t *testing.T) {
	seen := map[string]bool{}
	for _, drop := range []usage.Drop{
		usage.DropNotANumber, usage.DropInfinite, usage.DropNegative, usage.DropUnnamed, usage.DropLabels, usage.DropOutside, usage.DropHistogram, usage.DropClock,
		usage.DropImplausible, usage.DropNode, usage.DropLimit, usage.DropZero, usage.DropIdle, usage.DropStartup, usage.DropElsewhere, usage.DropForeign, usage.DropAmbiguous, usage.DropFull,
	} {
		assert.Regexp(t, "^[a-z_]+$", drop.Label(), string(drop))
		assert.False(t, seen[drop.Label()], drop.Label())
		seen[drop.Label()] = true
	}
}
