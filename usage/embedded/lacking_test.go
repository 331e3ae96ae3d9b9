package embedded

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
)

// TestKubeletsThatLackMetrics: what a kubelet does not measure is not known, and is never taken for 0. The other metrics of
// its containers count.
func TestKubeletsThatLackMetrics(t *testing.T) {
	const labelled = `{container="app",namespace="bank",pod="db-0"}`
	cpu := func(at time.Time) string {
		return fmt.Sprintf("container_cpu_usage_seconds_total%s %d %d\n", labelled, at.Unix()-noon.Unix(), at.UnixMilli())
	}
	memory := func(value string) func(time.Time) string {
		return func(at time.Time) string {
			return fmt.Sprintf("container_memory_working_set_bytes%s %s %d\n", labelled, value, at.UnixMilli())
		}
	}
	text := func(line string) func(time.Time) string { return func(time.Time) string { return line } }
	for name, c := range map[string]struct {
		answer      []func(time.Time) string
		cpu, memory float64
		dropped     usage.Drop
		// unread is why the scraper dropped a sample.
		unread usage.Drop
	}{
		"all of it":              {answer: []func(time.Time) string{cpu, memory("3e8")}, cpu: 1, memory: 3e8},
		"a working set of 0":     {answer: []func(time.Time) string{cpu, memory("0")}, cpu: 1, dropped: usage.DropZero},
		"no working set":         {answer: []func(time.Time) string{cpu, text("container_memory_usage_bytes" + labelled + " 23470080\n")}, cpu: 1},
		"a working set of NaN":   {answer: []func(time.Time) string{cpu, memory("NaN")}, cpu: 1},
		"no counter of CPU":      {answer: []func(time.Time) string{memory("3e8")}, memory: 3e8},
		"neither":                {answer: []func(time.Time) string{text("scrape_error 0\n")}},
		"a high-water mark of 0": {answer: []func(time.Time) string{cpu, memory("3e8"), text("container_memory_max_usage_bytes" + labelled + " 0\n")}, cpu: 1, memory: 3e8},
		"a start in the year 1": {
			answer: []func(time.Time) string{cpu, memory("3e8"), text("container_start_time_seconds" + labelled + " -6795364578.87 -62135596800000\n")}, cpu: 1, memory: 3e8,
		},
		"a sample of the year 1": {
			answer: []func(time.Time) string{cpu, memory("3e8"), text(`container_memory_working_set_bytes{container="app",namespace="bank",pod="db-1"} 5e8 -62135596800000` + "\n")},
			cpu:    1, memory: 3e8, unread: usage.DropClock,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nothing, noon)
			for i := range 6 {
				at := noon.Add(time.Duration(i) * time.Minute)
				f.clock.SetTime(at)
				var answer strings.Builder
				for _, line := range c.answer {
					answer.WriteString(line(at))
				}
				f.tell(t, f.node.Name, answer.String())
			}
			end := noon.Add(5 * time.Minute)
			var cpu, memory float64
			report, err := f.Read(t.Context(), usage.Query{Namespaces: []string{"bank"}, Start: end, End: end, Step: 5 * time.Minute, RateWindow: 5 * time.Minute}, func(s usage.Series) {
				require.Equal(t, "db-0", s.Pod)
				for _, sample := range s.CPU {
					cpu = sample.Value
				}
				for _, sample := range s.Memory {
					memory = sample.Value
				}
			})
			require.NoError(t, err)
			assert.InDelta(t, c.cpu, cpu, 0.01)
			assert.InDelta(t, c.memory, memory, 0)
			if c.dropped != "" {
				assert.Positive(t, report.Dropped[c.dropped])
			}
			if c.unread != "" {
				assert.InDelta(t, 6, f.dropped(t, c.unread), 0, "once for each scrape")
			}
		})
	}
}
