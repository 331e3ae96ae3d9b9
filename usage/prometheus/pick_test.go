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
	assert.Equal(t, []float64{10 << 40}, of(got[1].MemoryImplausible))
	assert.Equal(t, map[usage.Drop]int{usage.DropZero: 1, usage.DropImplausible: 2}, report.Dropped)
}
