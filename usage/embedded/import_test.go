package embedded

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
)

// TestImport: what is imported is answered as if it had been scraped, and scraping joins it.
func TestImport(t *testing.T) {
	const step, steps = 5 * time.Minute, 7 * 288
	start := noon.Add(-steps * step)
	past := usage.Series{Namespace: "shop", Pod: "web-7d4f8c9b6-aaaaa", Container: "app"}
	want := map[int64][2]float64{}
	for i := 1; i <= steps; i++ {
		if i > 500 && i <= 520 {
			continue
		}
		at := start.Add(time.Duration(i) * step).UnixMilli()
		cpu, memory := 0.1+float64(i%7)/10, float64(1+i%5)*(1<<20)
		past.CPU, past.Memory = append(past.CPU, usage.Sample{At: at, Value: cpu}), append(past.Memory, usage.Sample{At: at, Value: memory})
		want[at] = [2]float64{cpu, memory}
	}
	dir := t.TempDir()
	require.NoError(t, Import(dir, slices.Values([]usage.Series{past})))

	f := newFixture(t, oneContainer, noon, dir)
	_, oldest := f.disk.state()
	assert.WithinDuration(t, start, oldest, step)
	cpu, memory := map[int64]float64{}, map[int64]float64{}
	_, err := f.Read(t.Context(), usage.Query{Namespaces: []string{"shop"}, Start: start.Add(step), End: noon, Step: step, RateWindow: step}, func(s usage.Series) {
		for _, sample := range s.CPU {
			cpu[sample.At] = sample.Value
		}
		for _, sample := range s.Memory {
			memory[sample.At] = sample.Value
		}
	})
	require.NoError(t, err)
	assert.Len(t, memory, len(want))
	for at, v := range want {
		// A rate of five minutes sees the last four of them, and the first sample of the step.
		assert.InDelta(t, v[0], cpu[at], 0.2*v[0], time.UnixMilli(at).UTC())
		assert.InDelta(t, v[1], memory[at], 0)
	}
	for i := 1; i < 5; i++ {
		require.NoError(t, f.scrapeAt(noon.Add(time.Duration(i)*time.Minute), nil))
	}
	value, err := f.Value(t.Context(), `sum(count_over_time(container_memory_working_set_bytes{namespace="shop"}[10m]))`, noon.Add(4*time.Minute))
	require.NoError(t, err)
	assert.InDelta(t, 7+4-1, value, 1)
}
