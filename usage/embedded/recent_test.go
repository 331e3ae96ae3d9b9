package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

func labelsOf(metric string, m Measured) labels.Labels {
	return labels.FromStrings(labels.MetricName, metric, "container", m.Container, "namespace", m.Namespace, "pod", m.Pod)
}

func TestRecentKeepsAWindow(t *testing.T) {
	r := newRecent(noon)
	s := r.intern(labels.FromStrings(labels.MetricName, "x"))
	for i := range 500 {
		at := noon.Add(time.Duration(i) * time.Minute).UnixMilli()
		require.Len(t, r.append([]scraped{{s, promql.FPoint{T: at, F: float64(i)}}}, time.UnixMilli(at)), 1)
		require.LessOrEqual(t, cap(s.samples), 110, "it does not grow")
		have := s.between(at-keptFor.Milliseconds(), at)
		require.Len(t, have, min(i+1, 76))
		require.InDelta(t, float64(i), have[len(have)-1].F, 0)
	}
	last := noon.Add(499 * time.Minute)
	r.forget(last.Add(keptFor))
	assert.Equal(t, 1, r.count(""))
	r.forget(last.Add(keptFor + time.Second))
	assert.Zero(t, r.count(""))
}

func TestRecentTakesEachSampleOnce(t *testing.T) {
	r := newRecent(noon)
	s := r.intern(labels.FromStrings(labels.MetricName, "x"))
	at := noon.UnixMilli()
	assert.Len(t, r.append([]scraped{{s, promql.FPoint{T: at, F: 1}}, {s, promql.FPoint{T: at, F: 2}}, {s, promql.FPoint{T: at - 5, F: 3}}, {s, promql.FPoint{T: at + 5, F: 4}}}, noon), 2)
	assert.Equal(t, []promql.FPoint{{T: at, F: 1}, {T: at + 5, F: 4}}, s.between(0, at+100))
	assert.Same(t, s, r.intern(labels.FromStrings(labels.MetricName, "x")))
}

// A clock that was ahead for a moment stops neither scrapes of a kubelet nor the storage of its samples.
func TestAClockThatWasAhead(t *testing.T) {
	world := World(oneContainer)
	f := newFixture(t, world, noon)
	target := f.scraper.targets.of[f.node.Name]
	for _, at := range []time.Time{noon.Add(time.Minute), noon.Add(12 * time.Hour)} {
		require.NoError(t, f.scrapeAt(at, nil))
	}
	back := noon.Add(2 * time.Minute)
	assert.NotNil(t, target.job(back, nil, false, time.Minute), "its turn")
	require.NoError(t, f.scrapeAt(back, nil))
	m := oneContainer(back)[0]
	s := f.recent.intern(labels.NewBuilder(labelsOf(workingSet, m)).Set("node", f.node.Name).Labels())
	newest := s.samples[len(s.samples)-1]
	assert.Equal(t, back, time.UnixMilli(newest.T).UTC())
	assert.True(t, target.due.Before(back.Add(2*time.Minute)))
}

// TestTurnsAreSpread over the interval, and a node's turn does not depend on the time of the call.
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

// A failing node keeps its turn. Its first answer is followed by another one soon, because a CPU rate needs two.
func TestFailingNodesKeepTheirTurn(t *testing.T) {
	of := &target{node: Node{Name: "n1"}}
	j := &job{target: of, node: of.node, usage: true}
	of.finish(j, noon, noon, time.Minute, nil)
	turn := of.due
	for range 500 {
		of.finish(j, turn, turn, time.Minute, errors.New("connection refused"))
		require.Equal(t, turn.Add(time.Minute), of.due, "never more often than others")
		turn = of.due
	}
	of.finish(j, turn, turn, time.Minute, nil)
	assert.Equal(t, turn.Add(highEvery), of.due)
	of.finish(j, of.due, of.due, time.Minute, nil)
	assert.Equal(t, turn.Add(time.Minute), of.due)
}

// Nodes that do not answer take no place from the others.
func TestFailingNodesComeLast(t *testing.T) {
	all := &targets{interval: time.Minute, of: map[string]*target{}}
	for i := range 100 {
		name := fmt.Sprint("node-", i)
		all.of[name] = &target{node: Node{Name: name}, due: noon.Add(time.Duration(i) * time.Second / 10), failures: 1 - i%2}
	}
	jobs := all.due(noon.Add(10*time.Second), nil, false, 50)
	require.Len(t, jobs, 50)
	for _, j := range jobs {
		assert.Zero(t, j.target.failures, j.node.Name)
	}
	assert.Len(t, all.due(noon.Add(10*time.Second), nil, false, 100), 50, "the others are next")
}

// TestWhatNoNodeHasIsCut: implausible data of a kubelet is dropped.
func TestWhatNoNodeHasIsCut(t *testing.T) {
	f := newFixture(t, func(at time.Time) []Measured {
		m := append(oneContainer(at), oneContainer(at)...)
		m[1].Pod, m[1].CPUSeconds, m[1].MemoryBytes = "liar-7d4f8c9b6-aaaaa", 1e6*float64(at.Unix()-1.7e9), 1e15
		return m
	}, noon)
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

// TestAForgottenSeriesIsSeenAgain: the scraper knows a series for longer than memory does, and may use it between its
// creation and its first sample.
func TestAForgottenSeriesIsSeenAgain(t *testing.T) {
	r := newRecent(noon)
	m := oneContainer(noon)[0]
	s := r.intern(labelsOf(workingSet, m))
	at := func(minutes int) promql.FPoint {
		return promql.FPoint{T: noon.Add(time.Duration(minutes) * time.Minute).UnixMilli(), F: 1}
	}
	r.forget(noon)
	assert.Zero(t, r.count(workingSet), "it has no sample yet")
	require.Len(t, r.append([]scraped{{s, at(0)}}, noon), 1)
	assert.Equal(t, 1, r.count(workingSet))

	r.forget(noon.Add(2 * time.Hour))
	assert.Zero(t, r.count(workingSet))
	other := r.intern(labelsOf(workingSet, m))
	require.NotSame(t, s, other)
	accepted := r.append([]scraped{{s, at(121)}, {other, at(122)}}, noon.Add(122*time.Minute))
	require.Len(t, accepted, 2, "one series, whoever tells of it")
	assert.Same(t, other, accepted[0].series)
	assert.Equal(t, 1, r.count(workingSet))
	assert.Len(t, other.samples, 2)
}

// points is the number of values that a source has of an hour.
func points(t *testing.T, s *Source, end time.Time) (int, usage.Report) {
	t.Helper()
	n := 0
	report, err := s.Read(t.Context(), usage.Query{Namespaces: []string{"shop"}, Start: end.Add(-55 * time.Minute), End: end, Step: 5 * time.Minute, RateWindow: 5 * time.Minute},
		func(s usage.Series) { n += len(s.Memory) })
	require.NoError(t, err)
	return n, report
}

func TestErrorsOfQueries(t *testing.T) {
	f := newFixture(t, oneContainer, noon)
	require.NoError(t, f.scrapeAt(noon, nil))
	_, err := f.Value(t.Context(), `container_memory_working_set_bytes * on() group_left() {__name__=~"container_.+"}`, noon)
	require.Error(t, err)
	assert.NotErrorIs(t, err, prometheus.ErrNoValue)
	query := usage.Query{Namespaces: []string{"shop"}, Start: noon.Add(-10000 * time.Hour), End: noon, Step: time.Second, RateWindow: time.Minute}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err = f.Read(ctx, query, func(usage.Series) {})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// guardrail is a query over so many minutes, as written by a user.
func guardrail(minutes int) string {
	return fmt.Sprintf(`sum(count_over_time(container_memory_working_set_bytes{namespace="shop"}[%dm]))`, minutes)
}

func TestGuardrailsAreAnsweredForTheLastHour(t *testing.T) {
	f := newFixture(t, crowd(5), noon)
	at := noon
	for range 200 {
		at = at.Add(time.Minute)
		require.NoError(t, f.scrapeAt(at, nil))
		f.recent.forget(at)
	}
	for _, minutes := range []int{1, 20, 60, 75} {
		value, err := f.Value(t.Context(), guardrail(minutes), at)
		require.NoError(t, err)
		assert.InDelta(t, 5*minutes, value, 0)
	}
	value, err := f.Value(t.Context(), `max(max_over_time(rate(container_cpu_usage_seconds_total{namespace="shop"}[10m])[1h:1m]))`, at)
	require.NoError(t, err)
	assert.Positive(t, value)
	for _, query := range []string{guardrail(76), `sum(container_memory_working_set_bytes offset 2h)`, `1 + sum(rate(container_cpu_usage_seconds_total{namespace="nowhere"}[6h]))`} {
		_, err := f.Value(t.Context(), query, at)
		assert.ErrorContains(t, err, "the embedded usage source keeps samples for only 1h15m0s, and the query looks further back", query)
	}
}

// TestTheSamplesOfANamespaceAreBounded: a namespace with too many samples keeps them for a shorter time. Guardrails
// that read further back get an error, the log reports it, and a metric counts it. Other namespaces lose no samples,
// and recommendations lose none that they need.
func TestTheSamplesOfANamespaceAreBounded(t *testing.T) {
	world := func(at time.Time) []Measured {
		return append(crowd(20)(at), Measured{Namespace: "bank", Pod: "web-7d4f8c9b6-aaaaa", Container: "app", MemoryBytes: 1})
	}
	f := newFixture(t, world, noon)
	f.recent.most = 40 * 30
	at := noon
	scrape := func(minutes int) {
		for range minutes {
			at = at.Add(time.Minute)
			require.NoError(t, f.scrapeAt(at, nil))
			f.monitor.look()
		}
	}
	held := func() (n int) {
		for of, s := range f.recent.series {
			if of.Get("namespace") == "shop" {
				n += len(s.samples)
			}
		}
		return n
	}
	scrape(29)
	assert.NotContains(t, f.log.String(), "too many samples")
	scrape(171)
	assert.InDelta(t, f.recent.most, held(), 40, "a scrape of 20 containers")
	value, err := f.Value(t.Context(), guardrail(25), at)
	require.NoError(t, err)
	assert.InDelta(t, 20*25, value, 0)
	_, err = f.Value(t.Context(), guardrail(60), at)
	require.ErrorContains(t, err, "the embedded usage source keeps samples only since 14:50:00 in namespace shop, because there are more than 1200, and the query looks further back")
	value, err = f.Value(t.Context(), strings.ReplaceAll(guardrail(60), "shop", "bank"), at)
	require.NoError(t, err)
	assert.InDelta(t, 60, value, 0)
	assert.InDelta(t, 1, testutil.ToFloat64(f.options.Metrics.shortened), 0)
	assert.Equal(t, 1, strings.Count(f.log.String(), "namespaces have too many samples"), "%s", f.log)
	assert.Contains(t, f.log.String(), "names=[shop]")

	query := usage.Query{Namespaces: []string{"shop"}, Start: at, End: at, Step: 10 * time.Minute, RateWindow: 10 * time.Minute}
	_, err = f.Read(t.Context(), query, func(usage.Series) {})
	require.NoError(t, err)
	scrape(60)
	assert.InDelta(t, 40*42, held(), 80, "four rate windows and two minutes are needed")

	f.recent.most = mostSamples
	scrape(80)
	_, err = f.Value(t.Context(), guardrail(60), at)
	require.NoError(t, err)
	assert.Contains(t, f.log.String(), "Keeping one hour of samples for all namespaces again")
	assert.Zero(t, testutil.ToFloat64(f.options.Metrics.shortened))
}

// A query about one namespace holds fewer samples than one of an administrator, so that the queries of several namespaces
// together fit into memory.
func TestQueriesOfANamespaceHoldFewerSamples(t *testing.T) {
	f := newFixture(t, World(oneContainer), noon)
	const query = "sum_over_time(vector(1)[1h:1s])" // 3,600 samples
	for limit, works := range map[int]bool{1000: false, 10_000: true} {
		f.small = newEngine(f.options, limit)
		value, err := f.ValueOfNamespace(t.Context(), query, noon)
		if !works {
			require.ErrorIs(t, err, usage.ErrTooMuch)
			continue
		}
		require.NoError(t, err)
		assert.Greater(t, value, 3000.)
	}
	assert.Less(t, maxSamplesOfNamespace, maxSamples)
}

// The engine does not count the samples that its selectors copy, and a guardrail may have many selectors.
func TestSelectorsOfANamespaceCopyFewSamples(t *testing.T) {
	f := newFixture(t, World(oneContainer), noon)
	series := f.recent.intern(labels.FromStrings(labels.MetricName, "up", "namespace", "shop"))
	for i := range 3000 {
		series.push(promql.FPoint{T: noon.Add(time.Duration(i-3000) * time.Second).UnixMilli(), F: 1})
	}
	f.recent.put(series)
	const hour, seconds = `sum_over_time(up{namespace="shop"}[50m])`, `sum_over_time(up{namespace="shop"}[10s])`
	for query, works := range map[string]bool{
		hour + "+" + hour + "+" + hour: true, hour + "+" + hour + "+" + hour + "+" + hour: false,
		hour + strings.Repeat("+"+seconds, 30): true,
	} {
		_, err := f.valueOf(t.Context(), f.small, 10_000, query, noon)
		if works {
			require.NoError(t, err, query)
			continue
		}
		require.ErrorIs(t, err, usage.ErrTooMuch)
		_, err = f.Value(t.Context(), query, noon)
		require.NoError(t, err, "a guardrail of an administrator")
	}
}

// Regular expressions of guardrails are slow, so they are applied without the mutex, and not after the query has ended.
func TestAnEndedQueryMatchesNoSeries(t *testing.T) {
	f := newFixture(t, World(oneContainer), noon)
	series := f.recent.intern(labels.FromStrings(labels.MetricName, "up", "namespace", "shop"))
	series.push(promql.FPoint{T: noon.UnixMilli(), F: 1})
	f.recent.put(series)
	from, err := f.recent.queryable(true, 0, noon).Querier(noon.UnixMilli(), noon.UnixMilli())
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	matchers := []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "namespace", "sh.p")}
	hints := &storage.SelectHints{Start: noon.UnixMilli(), End: noon.UnixMilli()}
	found := from.Select(ended, true, hints, matchers...)
	assert.True(t, found.Next())
	cancel()
	found = from.Select(ended, true, hints, matchers...)
	assert.False(t, found.Next())
	assert.ErrorIs(t, found.Err(), context.Canceled)
}

// At the default interval of a minute ten minutes have the ten samples of each resource that a raise needs to be due.
func TestTenMinutesHaveTenSamples(t *testing.T) {
	f := newFixture(t, oneContainer, noon)
	for minute := range 15 {
		require.NoError(t, f.scrapeAt(noon.Add(time.Duration(minute)*time.Minute+17*time.Second), nil))
	}
	for _, now := range []time.Duration{0, 10, 20, 30, 40, 50} {
		end := noon.Add(14*time.Minute + now*time.Second).Truncate(30 * time.Second)
		cpu, memory := 0, 0
		_, err := f.Read(t.Context(), usage.Query{
			Namespaces: []string{"shop"}, Start: end.Add(-10 * time.Minute), End: end, Step: 30 * time.Second, RateWindow: 2 * time.Minute,
		}, func(s usage.Series) { cpu, memory = cpu+len(s.CPU), memory+len(s.Memory) })
		require.NoError(t, err)
		assert.GreaterOrEqual(t, cpu, 10, now)
		assert.GreaterOrEqual(t, memory, 10, now)
	}
}
