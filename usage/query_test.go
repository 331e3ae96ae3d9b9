package usage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/usage"
)

func TestSteps(t *testing.T) {
	step := 5 * time.Minute
	for _, test := range []struct {
		name           string
		at             time.Time
		ended, holding int64
	}{
		{"the end of a step belongs to it", time.Unix(600, 0), 2, 2},
		{"just after", time.Unix(600, int64(time.Millisecond)), 2, 3},
		{"just before", time.Unix(599, 999e6), 1, 2},
		{"the epoch", time.Unix(0, 0), 0, 0},
		{"before the epoch", time.Unix(-1, 0), -1, 0},
		{"a whole step before the epoch", time.Unix(-300, 0), -1, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.ended, usage.StepOf(test.at, step))
			assert.Equal(t, test.holding, usage.StepHolding(test.at, step))
			end := usage.StepEnd(test.holding, step)
			assert.False(t, end.Before(test.at))
			assert.Less(t, end.Sub(test.at), step)
		})
	}
}

func TestStepsOfFractionsOfSeconds(t *testing.T) {
	assert.Equal(t, int64(2), usage.StepOf(time.Unix(21, 0), 10500*time.Millisecond))
	assert.Equal(t, time.Unix(21, 0).UTC(), usage.StepEnd(2, 10500*time.Millisecond))
}

func TestSplit(t *testing.T) {
	query := usage.Query{Namespaces: []string{"a"}, Start: time.Unix(600, 0), End: time.Unix(3600, 0), Step: 5 * time.Minute}
	assert.Equal(t, int64(11), query.Steps())

	parts := query.Split(4)
	var spans [][2]int64
	for _, part := range parts {
		assert.LessOrEqual(t, part.Steps(), int64(4))
		assert.Equal(t, query.Namespaces, part.Namespaces)
		spans = append(spans, [2]int64{part.Start.Unix(), part.End.Unix()})
	}
	assert.Equal(t, [][2]int64{{600, 1500}, {1800, 2700}, {3000, 3600}}, spans, "every step once")

	assert.Len(t, query.Split(11), 1)
	assert.Empty(t, usage.Query{Start: time.Unix(900, 0), End: time.Unix(600, 0), Step: 5 * time.Minute}.Split(4))
}

// A query of the running step ends now, not with its step.
func TestSplitKeepsTheRunningStep(t *testing.T) {
	query := usage.Query{Start: time.Unix(601, 0), End: time.Unix(601, 0), Step: 5 * time.Minute, Running: true}
	assert.Equal(t, []usage.Query{query}, query.Split(4))
}

func TestSplitAlignsToTheEpoch(t *testing.T) {
	query := usage.Query{Start: time.Unix(601, 0), End: time.Unix(1799, 0), Step: 5 * time.Minute}
	part := query.Split(100)[0]
	assert.Equal(t, int64(600), part.Start.Unix())
	assert.Equal(t, int64(1500), part.End.Unix(), "a step that has not ended is not asked for")
}

func TestAskedPods(t *testing.T) {
	long := strings.Repeat("a", 70)
	asked := usage.Query{Namespaces: []string{"shop"}, PodPrefixes: []string{usage.PodPrefix("web"), usage.PodPrefix("my-api"), usage.PodPrefix(long)}}.Asked()
	for pod, want := range map[string]bool{
		"web-1": true, "web-7d4f8c9b6-aaaaa": true, "webber-1": false, "web": false, "my-api-x": true, "my-x": false, "api-x": false, "": false,
		usage.PodPrefix(long) + "x9x9x": true, long[:57]: false,
	} {
		assert.Equal(t, want, asked.Pod(pod), pod)
	}
	assert.True(t, usage.Query{}.Asked().Pod("anything"))
	assert.True(t, asked.Namespace("shop"))
	assert.False(t, asked.Namespace("bank"))
}
