package embedded

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/embedded/raw"
	"attune.io/attune/usage/sourcetest"
)

func labelsOf(metric string, m sourcetest.Measured) labels.Labels {
	return labels.FromStrings(labels.MetricName, metric, "container", m.Container, "namespace", m.Namespace, "pod", m.Pod)
}

func TestRecentKeepsAWindow(t *testing.T) {
	r := newRecent(10*time.Minute, noon)
	s := r.intern(labels.FromStrings(labels.MetricName, "x"))
	for i := range 500 {
		at := noon.Add(time.Duration(i) * time.Minute).UnixMilli()
		require.Len(t, r.append([]scraped{{s, raw.Sample{At: at, Value: float64(i)}}}, time.UnixMilli(at)), 1)
		require.LessOrEqual(t, len(s.samples), 32, "it does not grow")
		have := s.between(at-10*time.Minute.Milliseconds(), at)
		require.Len(t, have, min(i+1, 11))
		require.InDelta(t, float64(i), have[len(have)-1].Value, 0)
	}
	last := noon.Add(499 * time.Minute)
	assert.True(t, r.covers(last.Add(-10*time.Minute).UnixMilli(), last))
	assert.False(t, r.covers(last.Add(-11*time.Minute).UnixMilli(), last))
	r.forget(last.Add(10 * time.Minute))
	assert.Equal(t, 1, r.count(""))
	r.forget(last.Add(10*time.Minute + 1*time.Second))
	assert.Zero(t, r.count(""))
}

func TestRecentTakesEachSampleOnce(t *testing.T) {
	r := newRecent(time.Hour, noon)
	s := r.intern(labels.FromStrings(labels.MetricName, "x"))
	at := noon.UnixMilli()
	assert.Len(t, r.append([]scraped{{s, raw.Sample{At: at, Value: 1}}, {s, raw.Sample{At: at, Value: 2}}, {s, raw.Sample{At: at - 5, Value: 3}}, {s, raw.Sample{At: at + 5, Value: 4}}}, noon), 2)
	assert.Equal(t, raw.Samples{{At: at, Value: 1}, {At: at + 5, Value: 4}}, s.between(0, at+100))
	assert.Same(t, s, r.intern(labels.FromStrings(labels.MetricName, "x")))
}

// A clock that was ahead for a moment does not keep a kubelet from being asked, nor what it says from being kept.
func TestAClockThatWasAhead(t *testing.T) {
	world := sourcetest.World(oneContainer)
	f := newFixture(t, world, noon, "")
	target := f.scraper.targets.of[f.node.Name]
	for _, at := range []time.Time{noon.Add(time.Minute), noon.Add(12 * time.Hour)} {
		require.NoError(t, f.scrapeAt(at, nil))
	}
	back := noon.Add(2 * time.Minute)
	assert.NotNil(t, target.job(back, nil, false, time.Minute), "its turn")
	require.NoError(t, f.scrapeAt(back, nil))
	m := oneContainer(back)[0]
	s := f.recent.intern(labels.NewBuilder(labelsOf(memoryMetric, m)).Set("node", f.node.Name).Labels())
	newest := s.samples[len(s.samples)-1]
	assert.Equal(t, back, time.UnixMilli(newest.At).UTC())
	assert.True(t, target.due.Before(back.Add(2*time.Minute)))
}

// TestTurnsAreSpread over the interval, and a node's turn is the same whenever one asks.
func TestTurnsAreSpread(t *testing.T) {
	var slots [10]int
	for i := range 1000 {
		node := fmt.Sprintf("node-%d", i)
		now := noon.Add(time.Duration(rand.Int64N(int64(time.Hour))))
		next := nextAt(node, time.Minute, now)
		require.True(t, next.After(now))
		require.LessOrEqual(t, next.Sub(now), time.Minute)
		require.Equal(t, next.Add(time.Minute), nextAt(node, time.Minute, next))
		slots[next.Sub(next.Truncate(time.Minute))/(6*time.Second)]++
	}
	for _, n := range slots {
		assert.InDelta(t, 100, n, 50)
	}
}

func TestPauses(t *testing.T) {
	assert.Zero(t, pause(2, time.Minute))
	assert.Equal(t, time.Minute, pause(3, time.Minute))
	assert.Equal(t, 4*time.Minute, pause(5, time.Minute))
	assert.Equal(t, 5*time.Minute, pause(500, time.Minute))
	assert.Equal(t, 10*time.Minute, pause(500, 10*time.Minute), "never more often than others")
}

// TestWhatNoNodeHasIsCut: a kubelet that lies is not believed.
func TestWhatNoNodeHasIsCut(t *testing.T) {
	f := newFixture(t, func(at time.Time) []sourcetest.Measured {
		m := append(oneContainer(at), oneContainer(at)...)
		m[1].Pod, m[1].CPUSeconds, m[1].MemoryBytes = "liar-7d4f8c9b6-aaaaa", 1e6*float64(at.Unix()-1.7e9), 1e15
		return m
	}, noon, "")
	for i := range 11 {
		require.NoError(t, f.scrapeAt(noon.Add(time.Duration(i)*time.Minute), nil))
	}
	var all []usage.Series
	report, err := f.Read(t.Context(), usage.Query{Namespaces: []string{"shop"}, Start: noon.Add(10 * time.Minute), End: noon.Add(10 * time.Minute), Step: 5 * time.Minute, RateWindow: 5 * time.Minute},
		func(s usage.Series) {
			if len(s.CPU)+len(s.Memory) > 0 {
				all = append(all, s)
			}
		})
	require.NoError(t, err)
	assert.Len(t, all, 2)
	assert.Equal(t, 2, report.Samples)
	assert.Equal(t, map[usage.Drop]int{usage.DropImplausible: 2}, report.Dropped)
}

// TestAForgottenSeriesIsSeenAgain: whoever scrapes knows a series for longer than memory does, and may meet it between
// its making and its first sample.
func TestAForgottenSeriesIsSeenAgain(t *testing.T) {
	r := newRecent(minWindow, noon)
	m := oneContainer(noon)[0]
	s := r.intern(labelsOf(memoryMetric, m))
	at := func(minutes int) raw.Sample {
		return raw.Sample{At: noon.Add(time.Duration(minutes) * time.Minute).UnixMilli(), Value: 1}
	}
	r.forget(noon)
	assert.Zero(t, r.count(memoryMetric), "it has no sample yet")
	require.Len(t, r.append([]scraped{{s, at(0)}}, noon), 1)
	assert.Equal(t, 1, r.count(memoryMetric))

	r.forget(noon.Add(time.Hour))
	assert.Zero(t, r.count(memoryMetric))
	other := r.intern(labelsOf(memoryMetric, m))
	require.NotSame(t, s, other)
	accepted := r.append([]scraped{{s, at(61)}, {other, at(62)}}, noon.Add(62*time.Minute))
	require.Len(t, accepted, 2, "one series, whoever tells of it")
	assert.Same(t, other, accepted[0].series)
	assert.Equal(t, 1, r.count(memoryMetric))
	assert.Len(t, other.samples, 2)
}

// TestAWindowThatNobodyAsksForAnyMore: one policy's long rate window costs memory for as long as it is asked for, an hour
// at most, and not for ever.
func TestAWindowThatNobodyAsksForAnyMore(t *testing.T) {
	r := newRecent(minWindow, noon)
	s := r.intern(labels.FromStrings(labels.MetricName, "x"))
	at := noon
	run := func(minutes int, ask time.Duration) {
		for range minutes {
			at = at.Add(time.Minute)
			if ask > 0 {
				r.keepFor(ask, at)
			}
			r.append([]scraped{{s, raw.Sample{At: at.UnixMilli(), Value: 1}}}, at)
			r.forget(at)
		}
	}
	held := func(d time.Duration) bool { return r.covers(at.Add(-d).UnixMilli(), at) }
	run(600, 0)
	usual := cap(s.samples)
	require.True(t, held(minWindow))

	r.keepFor(6*time.Hour, at)
	assert.False(t, held(minWindow+time.Minute), "what was let go of is not in memory")
	run(300, 6*time.Hour)
	assert.True(t, held(maxWindow))
	assert.False(t, held(maxWindow+time.Minute), "the disk's")
	assert.LessOrEqual(t, cap(s.samples), 4*int(maxWindow/time.Minute))

	run(int(2*rememberAsked/time.Minute)+1, 0)
	assert.False(t, held(minWindow+time.Minute))
	run(60, 0)
	assert.LessOrEqual(t, cap(s.samples), max(leastSamples, 2*usual))
	assert.Len(t, s.between(at.Add(-minWindow).UnixMilli(), at.UnixMilli()), int(minWindow/time.Minute)+1)
}
