package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Unix(1_700_000_000, 0)

func TestOpenMetricsKeepsMetricsTogetherAndCountersGrowing(t *testing.T) {
	s := Series{
		Namespace: "n", Pod: "p", Container: "c", Node: "node2",
		From: start, To: start.Add(2 * time.Minute),
		CPU:    Values(start, time.Minute, []float64{1, 0.5}),
		Memory: func(time.Time) float64 { return 7 },
	}
	var b strings.Builder
	require.NoError(t, writeOpenMetrics(&b, []Series{s}))
	labels := `{container="c",namespace="n",pod="p",id="/backfill/n/p/c",name="backfill",image="local/workload:dev",job="cadvisor",instance="172.30.0.12:10250",node="node2"}`
	require.Equal(t, strings.Join([]string{
		"# TYPE container_cpu_usage_seconds counter",
		"container_cpu_usage_seconds_total" + labels + " 60 1700000000",
		"container_cpu_usage_seconds_total" + labels + " 90 1700000060",
		"container_cpu_usage_seconds_total" + labels + " 120 1700000120",
		"# TYPE container_memory_working_set_bytes gauge",
		"container_memory_working_set_bytes" + labels + " 7 1700000000",
		"container_memory_working_set_bytes" + labels + " 7 1700000060",
		"container_memory_working_set_bytes" + labels + " 7 1700000120",
		"# TYPE container_cpu_cfs_periods counter",
		"# TYPE container_cpu_cfs_throttled_periods counter",
		"# EOF", "",
	}, "\n"), b.String())
}

func TestValuesHoldUntilTheNext(t *testing.T) {
	f := Values(start, time.Minute, []float64{1, 2})
	for after, want := range map[time.Duration]float64{-time.Hour: 1, 0: 1, 59 * time.Second: 1, time.Minute: 2, time.Hour: 2} {
		require.Equal(t, want, f(start.Add(after)), after)
	}
	require.Zero(t, Values(start, time.Minute, nil)(start))
}

func TestSizeOfANode(t *testing.T) {
	const machine = 8 << 20 // KiB
	for _, test := range []struct {
		name, memory string
		want         size
		err          string
	}{
		{"smaller than the machine", "3Gi", size{reservedKiB: 5 << 20}, ""},
		{"greater than the machine", "64Gi", size{reservedKiB: 1 << 20, pretendKiB: 65 << 20}, ""},
		{"nonsense", "much", size{}, "NodeMemory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Options{NodeCPU: "0", NodeMemory: test.memory}.size(machine)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			got.reservedMilliCPU = 0
			require.Equal(t, test.want, got)
		})
	}
	_, err := Options{NodeCPU: "9999", NodeMemory: "1Gi"}.size(machine)
	require.ErrorContains(t, err, "use more nodes")
}

func TestNamesThatCannotBe(t *testing.T) {
	for _, name := range []string{"A", "a/b", "-a", "a-", strings.Repeat("a", 40)} {
		_, err := Options{Name: name}.withDefaults()
		require.ErrorContains(t, err, "cannot be a cluster's name", name)
	}
}
