package prometheus

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
)

// TestForeignNamespaces: data of a server counts only for the queried namespaces.
func TestForeignNamespaces(t *testing.T) {
	at := time.Unix(1_700_000_100, 0)
	query := usage.Query{Namespaces: []string{"shop"}, Start: at, End: at, Step: time.Minute, RateWindow: time.Minute}
	var got []string
	report, err := Read(t.Context(), Everything, query, func(_ context.Context, _ string, _ usage.Query, yield func(Element)) (usage.Report, error) {
		for _, namespace := range []string{"shop", "bank", "Shop", "shop "} {
			yield(Element{
				Labels:  Labels{Namespace: namespace, Pod: "web-7d4f8c9b6-aaaaa", Container: "app"},
				Samples: []usage.Sample{{At: at.UnixMilli(), Value: 4_294_967}, {At: at.UnixMilli(), Value: 1}},
			})
		}
		return usage.Report{}, nil
	}, func(s usage.Series) { got = append(got, s.Namespace) })
	require.NoError(t, err)
	assert.Equal(t, []string{"shop", "shop"}, got, "CPU and memory")
	assert.Equal(t, 2*3*2, report.Dropped[usage.DropForeign])
}

// TestSamplesAboveTheLargestNodeAreToldApart: interleaved counters of two servers give 1,600 cores, a glitch gives 10
// TiB, and a runtime that does not measure memory gives 0.
func TestSamplesAboveTheLargestNodeAreToldApart(t *testing.T) {
	at := time.Unix(1_700_000_100, 0)
	query := usage.Query{
		Namespaces: []string{"shop"}, Start: at, End: at.Add(4 * time.Minute), Step: time.Minute, RateWindow: time.Minute,
		Most: usage.MostOn(64, 256<<30),
	}
	var got []usage.Series
	report, err := Read(t.Context(), Everything, query, func(_ context.Context, expression string, _ usage.Query, yield func(Element)) (usage.Report, error) {
		values := []float64{0, 96, 1600, 0.5}
		if expression == Everything.Memory(query) {
			values = []float64{0, 3e8, 10 << 40, 384 << 30}
		}
		var samples []usage.Sample
		for i, value := range values {
			samples = append(samples, usage.Sample{At: at.Add(time.Duration(i) * time.Minute).UnixMilli(), Value: value})
		}
		yield(Element{Labels: Labels{Namespace: "shop", Pod: "web-7d4f8c9b6-aaaaa", Container: "app"}, Samples: samples})
		return usage.Report{}, nil
	}, func(s usage.Series) { got = append(got, s) })
	require.NoError(t, err)
	require.Len(t, got, 2)
	of := func(samples []usage.Sample) (values []float64) {
		for _, s := range samples {
			values = append(values, s.Value)
		}
		return values
	}
	assert.Equal(t, []float64{0, 96, 0.5}, of(got[0].CPU))
	assert.Equal(t, []float64{1600}, of(got[0].CPUImplausible))
	assert.Equal(t, []float64{3e8, 384 << 30}, of(got[1].Memory))
	assert.Equal(t, []float64{0, 10 << 40}, of(got[1].MemoryImplausible), "0 bytes count towards a block too")
	assert.Equal(t, usage.DropImplausible, got[1].Why, "the reason of the highest one")
	assert.EqualValues(t, 384<<30, got[1].Bound)
	assert.Equal(t, map[usage.Drop]int{usage.DropZero: 1, usage.DropImplausible: 2}, report.Dropped)
}

// TestFactsAreLookedUpOncePerSeries: the facts about a container bound its samples, and its start goes with them.
func TestFactsAreLookedUpOncePerSeries(t *testing.T) {
	at := time.Unix(1_700_000_100, 0)
	created := at.Add(-time.Hour).UnixMilli()
	lookups := 0
	query := usage.Query{
		Namespaces: []string{"shop"}, Start: at, End: at.Add(2 * time.Minute), Step: time.Minute, RateWindow: time.Minute,
		Most: usage.MostOn(64, 256<<30),
		Of: func(namespace, pod, container string) usage.Facts {
			lookups++
			assert.Equal(t, "shop/web-1/app", namespace+"/"+pod+"/"+container)
			return usage.Facts{Created: created, LimitSince: created, Limit: usage.Most{Cores: 2, Bytes: 1 << 30}, Started: 42, Restarts: 1}
		},
	}
	answer := func(_ context.Context, expression string, _ usage.Query, yield func(Element)) (usage.Report, error) {
		values := []float64{1, 3.1, 1}
		if expression == Everything.Memory(query) {
			values = []float64{3e8, 4 << 30, 3e8}
		}
		var samples []usage.Sample
		for i, value := range values {
			samples = append(samples, usage.Sample{At: at.Add(time.Duration(i) * time.Minute).UnixMilli(), Value: value})
		}
		yield(Element{Labels: Labels{Namespace: "shop", Pod: "web-1", Container: "app"}, Samples: samples})
		return usage.Report{}, nil
	}
	var got []usage.Series
	report, err := Read(t.Context(), Everything, query, answer, func(s usage.Series) { got = append(got, s) })
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Equal(t, 2, lookups)
	assert.Equal(t, map[usage.Drop]int{usage.DropLimit: 2}, report.Dropped)
	assert.Equal(t, []float64{3.1, 4 << 30}, []float64{got[0].CPUImplausible[0].Value, got[1].MemoryImplausible[0].Value})
	assert.Equal(t, []any{usage.DropLimit, 3.0, int64(42), 1}, []any{got[0].Why, got[0].Bound, got[0].Started, got[0].Restarts})

	// With the time that it waited, usage may double.
	query.Waited = true
	report, err = Read(t.Context(), Everything, query, answer, func(usage.Series) {})
	require.NoError(t, err)
	assert.Equal(t, map[usage.Drop]int{usage.DropLimit: 1}, report.Dropped)

	gone := func(of func(namespace, pod, container string) usage.Facts) bool {
		query.Of, got = of, nil
		_, err = Read(t.Context(), Everything, query, answer, func(s usage.Series) { got = append(got, s) })
		require.NoError(t, err)
		return got[0].Gone
	}
	assert.True(t, gone(func(string, string, string) usage.Facts { return usage.Facts{} }))
	assert.False(t, gone(func(string, string, string) usage.Facts { return usage.Facts{Created: created} }))
	assert.False(t, gone(nil), "nothing is known of any pod")
}

// TestDropsAreCountedOnce: reads overlap, and a dropped sample counts when its step is read first.
func TestDropsAreCountedOnce(t *testing.T) {
	at := time.Unix(1_700_000_100, 0)
	query := usage.Query{Namespaces: []string{"shop"}, Start: at, End: at.Add(2 * time.Minute), Step: time.Minute, RateWindow: time.Minute}
	answer := func(_ context.Context, _ string, query usage.Query, yield func(Element)) (usage.Report, error) {
		for _, pod := range []string{"", "web-1"} {
			var samples []usage.Sample
			for i := query.Start; !i.After(query.End); i = i.Add(query.Step) {
				samples = append(samples, usage.Sample{At: i.UnixMilli(), Value: -1})
			}
			yield(Element{Labels: Labels{Namespace: "shop", Pod: pod, Container: "app"}, Samples: samples})
		}
		return usage.Report{}, nil
	}
	all := map[usage.Drop]int{}
	for range 4 {
		counts := query.CountDropped()
		report, err := Read(t.Context(), Everything, query, answer, func(usage.Series) {})
		require.NoError(t, err)
		assert.Equal(t, map[usage.Drop]int{usage.DropNegative: 6, usage.DropUnnamed: 6}, report.Dropped, "the report is about the whole answer")
		for why, n := range counts {
			all[why] += n
		}
		query.Counted, query.Start, query.End = query.End, query.Start.Add(time.Minute), query.End.Add(time.Minute)
	}
	assert.Equal(t, map[usage.Drop]int{usage.DropNegative: 12, usage.DropUnnamed: 12}, all, "six steps of CPU and of memory")
}
