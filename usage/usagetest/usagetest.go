// Package usagetest has the tests that every usage source must pass: for the same past, each gives the same answers.
package usagetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

// Evaluator is a source that evaluates PromQL, such as the queries of guardrails.
type Evaluator interface {
	usage.Source
	Value(ctx context.Context, expression string, at time.Time) (float64, error)
}

// Measured is a kubelet's measurement of one container at a moment.
type Measured struct {
	Namespace, Pod, Container string
	// CPUSeconds is a counter, MemoryBytes the working set.
	CPUSeconds, MemoryBytes float64
	// Periods and Throttled are counters of containers with a CPU limit; both 0: no limit.
	Periods, Throttled float64
}

// World returns the measurements of all containers at a moment.
type World func(at time.Time) []Measured

// Past is a world that was measured at regular times from one moment to another, both included.
type Past struct {
	From, To time.Time
	Every    time.Duration
	World    World
}

// Load returns a source that has measured a past. Its clock shows the end of the past.
type Load[S usage.Source] func(t *testing.T, past Past) S

// Noon is the end of most pasts, and of a step.
var Noon = time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)

// step of most queries.
const step = 5 * time.Minute

// TestSource tests a source. For a source that evaluates PromQL, use TestEvaluator.
func TestSource[S usage.Source](t *testing.T, load Load[S]) {
	run(t, func(t *testing.T, past Past) usage.Source { return load(t, past) }, []testCase[usage.Source]{
		{"steady usage is the same at each step", steady},
		{"a restarted container has no negative and no huge rate", restarted},
		{"unmeasured time is a gap", gap},
		{"the peak memory of a step is found anywhere in the step", memoryPeak},
		{"a short rate window has CPU peaks", cpuPeak},
		{"a long rate window has no CPU peaks", noCPUPeak},
		{"the answer has only the queried namespaces and pods, by container", selection},
		{"without namespaces the answer is empty", noNamespace},
		{"negative amounts are dropped", notAmounts},
		{"a canceled read returns the context's error", canceledRead},
	})
}

// TestEvaluator tests a source that evaluates PromQL.
func TestEvaluator[S Evaluator](t *testing.T, load Load[S]) {
	TestSource(t, load)
	run(t, func(t *testing.T, past Past) Evaluator { return load(t, past) }, []testCase[Evaluator]{
		{"a query of one number", value},
		{"throttling is a fraction of the periods", throttled},
		{"a canceled query returns the context's error", canceledValue},
	})
}

type testCase[S usage.Source] struct {
	name string
	test func(*testing.T, Load[S])
}

func run[S usage.Source](t *testing.T, load Load[S], cases []testCase[S]) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.test(t, load) })
	}
}

// hours is a past that ends at noon, measured every minute.
func hours(n int, world World) Past {
	return Past{From: Noon.Add(-time.Duration(n) * time.Hour), To: Noon, Every: time.Minute, World: world}
}

// using counts CPU seconds since the epoch.
func using(cores, bytes float64) World {
	return func(at time.Time) []Measured {
		return []Measured{{Namespace: "shop", Pod: "web-7d4f8c9b6-aaaaa", Container: "app", CPUSeconds: cores * sinceStart(at), MemoryBytes: bytes}}
	}
}

func sinceStart(at time.Time) float64 { return at.Sub(Noon.Add(-240 * time.Hour)).Seconds() }

// lastHour queries the steps of the hour that ends at noon.
func lastHour() usage.Query {
	return usage.Query{Namespaces: []string{"shop"}, Start: Noon.Add(-time.Hour + step), End: Noon, Step: step, RateWindow: step}
}

// yielded has the yielded series, joined by container.
type yielded map[string]*usage.Series

func read(t *testing.T, source usage.Source, query usage.Query) (yielded, usage.Report) {
	t.Helper()
	all := yielded{}
	report, err := source.Read(t.Context(), query, func(s usage.Series) {
		of := s.Namespace + "/" + s.Pod + "/" + s.Container
		if all[of] == nil {
			all[of] = &usage.Series{}
		}
		all[of].CPU = append(all[of].CPU, s.CPU...)
		all[of].CPUPeak = append(all[of].CPUPeak, s.CPUPeak...)
		all[of].Memory = append(all[of].Memory, s.Memory...)
	})
	require.NoError(t, err)
	return all, report
}

const app = "shop/web-7d4f8c9b6-aaaaa/app"

func steady(t *testing.T, load Load[usage.Source]) {
	all, report := read(t, load(t, hours(3, using(0.2, 100<<20))), lastHour())
	require.Contains(t, all, app)
	require.Len(t, all[app].CPU, 12)
	require.Len(t, all[app].Memory, 12)
	assert.Empty(t, all[app].CPUPeak)
	for i := range 12 {
		at := Noon.Add(-time.Hour + time.Duration(i+1)*step)
		assert.Equal(t, at, all[app].CPU[i].Time())
		assert.Equal(t, at, all[app].Memory[i].Time())
		assert.InDelta(t, 0.2, all[app].CPU[i].Value, 1e-6)
		assert.InDelta(t, 100<<20, all[app].Memory[i].Value, 0)
	}
	assert.Equal(t, 24, report.Samples)
	assert.False(t, report.Partial)
	assert.Empty(t, report.Dropped)
}

func restarted(t *testing.T, load Load[usage.Source]) {
	world := func(at time.Time) []Measured {
		m := using(0.5, 1<<20)(at)
		if again := Noon.Add(-32 * time.Minute); at.After(again) {
			m[0].CPUSeconds = 0.5 * at.Sub(again).Seconds()
		}
		return m
	}
	all, _ := read(t, load(t, hours(3, world)), lastHour())
	require.Len(t, all[app].CPU, 12)
	for _, sample := range all[app].CPU {
		assert.InDelta(t, 0.5, sample.Value, 0.1, "%s", sample.Time())
	}
}

func gap(t *testing.T, load Load[usage.Source]) {
	world := func(at time.Time) []Measured {
		if at.After(Noon.Add(-40*time.Minute)) && at.Before(Noon.Add(-20*time.Minute)) {
			return nil
		}
		return using(0.2, 1<<20)(at)
	}
	all, _ := read(t, load(t, hours(2, world)), lastHour())
	for _, samples := range [][]usage.Sample{all[app].CPU, all[app].Memory} {
		for _, sample := range samples {
			inside := sample.Time().After(Noon.Add(-40*time.Minute)) && sample.Time().Before(Noon.Add(-20*time.Minute))
			assert.False(t, inside, "%s has a value", sample.Time())
		}
		assert.GreaterOrEqual(t, len(samples), 8)
	}
}

func memoryPeak(t *testing.T, load Load[usage.Source]) {
	peak := Noon.Add(-13 * time.Minute)
	world := func(at time.Time) []Measured {
		m := using(0.2, 100)(at)
		if at.Equal(peak) {
			m[0].MemoryBytes = 900
		}
		return m
	}
	all, _ := read(t, load(t, hours(2, world)), lastHour())
	for _, sample := range all[app].Memory {
		want := 100.0
		if sample.Time().Equal(Noon.Add(-10 * time.Minute)) {
			want = 900
		}
		assert.InDelta(t, want, sample.Value, 0, "%s", sample.Time())
	}
}

// burst uses one core for two minutes within the step that ends half an hour before noon.
func burst(at time.Time) []Measured {
	m := using(0.1, 1<<20)(at)
	from := Noon.Add(-34 * time.Minute)
	m[0].CPUSeconds += 0.9 * min(max(at.Sub(from), 0), 2*time.Minute).Seconds()
	return m
}

func cpuPeak(t *testing.T, load Load[usage.Source]) {
	query := lastHour()
	query.RateWindow = 150 * time.Second
	past := hours(2, burst)
	past.Every = 30 * time.Second
	all, _ := read(t, load(t, past), query)
	require.Len(t, all[app].CPUPeak, 12)
	at := slices.IndexFunc(all[app].CPUPeak, func(s usage.Sample) bool { return s.Time().Equal(Noon.Add(-30 * time.Minute)) })
	require.GreaterOrEqual(t, at, 0)
	assert.Greater(t, all[app].CPUPeak[at].Value, 0.6, "the burst")
	assert.Less(t, all[app].CPU[at].Value, 0.3, "the end of the step")
	assert.InDelta(t, 0.1, all[app].CPUPeak[at+2].Value, 0.01, "after it")
}

func noCPUPeak(t *testing.T, load Load[usage.Source]) {
	all, _ := read(t, load(t, hours(2, burst)), lastHour())
	assert.Empty(t, all[app].CPUPeak)
	at := slices.IndexFunc(all[app].CPU, func(s usage.Sample) bool { return s.Time().Equal(Noon.Add(-30 * time.Minute)) })
	assert.InDelta(t, 0.1+0.9*2/5, all[app].CPU[at].Value, 0.1, "the mean of the step")
}

func selection(t *testing.T, load Load[usage.Source]) {
	world := func(at time.Time) []Measured {
		var all []Measured
		for i, of := range [][3]string{
			{"shop", "web-7d4f8c9b6-aaaaa", "app"}, {"shop", "web-7d4f8c9b6-aaaaa", "sidecar"}, {"shop", "web-7d4f8c9b6-bbbbb", "app"},
			{"shop", "api-7d4f8c9b6-ccccc", "app"}, {"bank", "web-7d4f8c9b6-aaaaa", "app"}, {"shopping", "web-7d4f8c9b6-aaaaa", "app"},
		} {
			all = append(all, Measured{Namespace: of[0], Pod: of[1], Container: of[2], CPUSeconds: 0.1 * float64(i+1) * sinceStart(at), MemoryBytes: float64(i + 1)})
		}
		return all
	}
	source := load(t, hours(1, world))
	query := lastHour()
	query.Start = Noon.Add(-10 * time.Minute)
	all, _ := read(t, source, query)
	assert.Len(t, all, 4)
	for of, want := range map[string]float64{app: 1, "shop/web-7d4f8c9b6-aaaaa/sidecar": 2, "shop/web-7d4f8c9b6-bbbbb/app": 3, "shop/api-7d4f8c9b6-ccccc/app": 4} {
		require.Contains(t, all, of)
		assert.InDelta(t, want, all[of].Memory[0].Value, 0)
		assert.InDelta(t, want/10, all[of].CPU[0].Value, 1e-6)
	}
	query.PodPrefixes = []string{"api-", "other-"}
	all, _ = read(t, source, query)
	assert.Len(t, all, 1)
	assert.Contains(t, all, "shop/api-7d4f8c9b6-ccccc/app")
	query.PodPrefixes = nil
	query.Namespaces = []string{"bank", "shopping"}
	all, _ = read(t, source, query)
	assert.Len(t, all, 2)
}

func noNamespace(t *testing.T, load Load[usage.Source]) {
	query := lastHour()
	query.Namespaces = nil
	all, report := read(t, load(t, hours(1, using(0.2, 1))), query)
	assert.Empty(t, all)
	assert.Zero(t, report.Samples)
}

func notAmounts(t *testing.T, load Load[usage.Source]) {
	world := func(at time.Time) []Measured {
		return append(using(0.2, 100<<20)(at),
			Measured{Namespace: "shop", Pod: "negative-7d4f8c9b6-aaaaa", Container: "app", CPUSeconds: -sinceStart(at), MemoryBytes: -5})
	}
	all, _ := read(t, load(t, hours(1, world)), lastHour())
	assert.Contains(t, all, app)
	if odd := all["shop/negative-7d4f8c9b6-aaaaa/app"]; odd != nil {
		assert.Empty(t, odd.Memory)
		for _, sample := range odd.CPU {
			assert.GreaterOrEqual(t, sample.Value, 0.0)
		}
	}
}

func value(t *testing.T, load Load[Evaluator]) {
	source := load(t, hours(1, using(0.2, 100<<20)))
	ask := func(expression string) (float64, error) { return source.Value(t.Context(), expression, Noon) }
	got, err := ask(`max_over_time(container_memory_working_set_bytes{namespace="shop",container="app"}[10m]) / 1048576`)
	require.NoError(t, err)
	assert.InDelta(t, 100, got, 1e-9)
	got, err = ask("1 + 1")
	require.NoError(t, err)
	assert.InDelta(t, 2, got, 0)
	_, err = ask(`container_memory_working_set_bytes{namespace="nowhere"}`)
	assert.ErrorIs(t, err, prometheus.ErrNoValue)
	_, err = ask(`{__name__=~"container_.+",namespace="shop",container="app"}`)
	assert.ErrorIs(t, err, prometheus.ErrManyValues)
	_, err = ask(`rate(container_memory`)
	assert.Error(t, err)
	_, err = ask(`container_memory_working_set_bytes[5m]`)
	assert.Error(t, err)
}

func throttled(t *testing.T, load Load[Evaluator]) {
	world := func(at time.Time) []Measured {
		m := using(0.2, 1<<20)(at)
		m[0].Periods, m[0].Throttled = 10*sinceStart(at), 4*sinceStart(at)
		return append(m, Measured{Namespace: "shop", Pod: "free-7d4f8c9b6-aaaaa", Container: "app", CPUSeconds: sinceStart(at), MemoryBytes: 1})
	}
	source := load(t, hours(1, world))
	got, err := source.Value(t.Context(), prometheus.Everything.Throttled("shop", []string{"web-7d4f8c9b6-aaaaa"}, 10*time.Minute), Noon)
	require.NoError(t, err)
	assert.InDelta(t, 0.4, got, 1e-6)
	_, err = source.Value(t.Context(), prometheus.Everything.Throttled("shop", []string{"free-7d4f8c9b6-aaaaa"}, 10*time.Minute), Noon)
	assert.ErrorIs(t, err, prometheus.ErrNoValue, "a container without a limit")
}

func canceledRead(t *testing.T, load Load[usage.Source]) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := load(t, hours(1, using(0.2, 1))).Read(ctx, lastHour(), func(usage.Series) {})
	assert.True(t, errors.Is(err, context.Canceled), "%v", err)
}

func canceledValue(t *testing.T, load Load[Evaluator]) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := load(t, hours(1, using(0.2, 1))).Value(ctx, "1", Noon)
	assert.True(t, errors.Is(err, context.Canceled), "%v", err)
}
