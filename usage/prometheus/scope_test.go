package prometheus_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

func inCluster(name, cluster, namespace, pod string) string {
	return fmt.Sprintf(`%s{namespace=%q,pod=%q,container="app",cluster=%q,job="kubelet"}`, name, namespace, pod, cluster)
}

// twoClusters have a pod with the same name each; one uses twenty times as much.
func twoClusters() map[string]func(int) (float64, bool) {
	series := map[string]func(int) (float64, bool){}
	for cluster, cores := range map[string]float64{"eu-1": 0.1, "us-1": 2} {
		series[inCluster("container_cpu_usage_seconds_total", cluster, "shop", "web-0")] = growing(cores)
		series[inCluster("container_memory_working_set_bytes", cluster, "shop", "web-0")] = steady(cores * 1e9)
		series[inCluster("container_memory_usage_bytes", cluster, "shop", "web-0")] = steady(cores * 1e9)
		series[inCluster("container_pressure_cpu_waiting_seconds_total", cluster, "shop", "web-0")] = growing(cores / 10)
		series[inCluster("container_oom_events_total", cluster, "shop", "web-0")] = stepped(3, 0, cores*10)
		series[inCluster("container_cpu_cfs_periods_total", cluster, "shop", "web-0")] = growing(10)
		series[inCluster("container_cpu_cfs_throttled_periods_total", cluster, "shop", "web-0")] = growing(cores)
		series[fmt.Sprintf(`node_load1{node="a",cluster=%q}`, cluster)] = steady(cores)
		series[fmt.Sprintf(`node_load1{instance="1:9100",cluster=%q}`, cluster)] = steady(cores * 3)
		series[fmt.Sprintf(`node_uname_info{instance="1:9100",nodename="b",cluster=%q}`, cluster)] = steady(1)
		series[fmt.Sprintf(`container_pressure_cpu_waiting_seconds_total{id="/",node="a",cluster=%q}`, cluster)] = growing(cores / 10)
		series[fmt.Sprintf(`node_cpu_usage_seconds_total{node="a",cluster=%q}`, cluster)] = growing(cores)
	}
	return series
}

// TestOneOfTwoClusters: every query to a server is limited to the named cluster.
func TestOneOfTwoClusters(t *testing.T) {
	client, _ := holding(t, prometheus.Config{Labels: map[string]string{"cluster": "eu-1"}}, twoClusters())
	query := usage.Query{Namespaces: []string{"shop"}, Start: moment, End: moment, Step: time.Minute, RateWindow: 5 * time.Minute}
	for _, waited := range []bool{false, true} {
		query.Waited = waited
		cpu, memory := 0.0, 0.0
		report, err := client.Read(t.Context(), query, func(s usage.Series) {
			for _, sample := range s.CPU {
				cpu = max(cpu, sample.Value)
			}
			for _, sample := range s.Memory {
				memory = max(memory, sample.Value)
			}
		})
		require.NoError(t, err)
		assert.Empty(t, report.Warnings, "it is said which cluster is meant")
		assert.InDelta(t, 0.1, cpu, 0.01)
		assert.InDelta(t, 1e8, memory, 1)
	}

	pods := []string{"web-0"}
	for name, test := range map[string]struct {
		of   func(prometheus.Scope) func([]string) string
		want float64
	}{
		"held": {func(s prometheus.Scope) func([]string) string {
			return func(p []string) string { return s.Held("shop", p, time.Minute) }
		}, 1e8},
		"waiting": {func(s prometheus.Scope) func([]string) string {
			return func(p []string) string { return s.Waiting("shop", p, 5*time.Minute) }
		}, 0.01},
		"throttled": {func(s prometheus.Scope) func([]string) string {
			return func(p []string) string { return s.Throttled("shop", p, 5*time.Minute) }
		}, 0.01},
		"killed": {func(s prometheus.Scope) func([]string) string {
			return func(p []string) string { return s.Killed("shop", p, 6*time.Minute) }
		}, 1},
		"seen": {func(s prometheus.Scope) func([]string) string {
			return func(p []string) string { return s.Seen("shop", p, 6*time.Minute) }
		}, 1},
	} {
		got, err := prometheus.AskPods(t.Context(), pods, moment, client.Range, test.of(client.Scope()))
		require.NoError(t, err, name)
		assert.InDelta(t, test.want, got["web-0"]["app"], test.want/100, name)
	}
	for name, test := range map[string]struct {
		of   string
		want map[string]float64
	}{
		"pressure": {client.Scope().NodesPressure(5 * time.Minute), map[string]float64{"a": 0.01}},
		"load":     {client.Scope().NodesLoad(), map[string]float64{"a": 0.1, "b": 0.3}},
		"usage":    {client.Scope().NodesUsage(5 * time.Minute), map[string]float64{"a": 0.1}},
	} {
		got, err := prometheus.AskNodes(t.Context(), test.of, moment, client.Range)
		require.NoError(t, err, name)
		assert.InDeltaMapValues(t, test.want, got, 1e-6, name)
	}
	one, err := client.Value(t.Context(), client.Scope().Used("shop", "web-0", "app", 5*time.Minute), moment)
	require.NoError(t, err)
	assert.InDelta(t, 0.1, one, 1e-6)
	one, err = client.Value(t.Context(), client.Scope().NodeUsage("a", 5*time.Minute), moment)
	require.NoError(t, err)
	assert.InDelta(t, 0.1, one, 1e-6)
}

// TestTwoClustersAreSaid: if no cluster is named, every answer warns of two clusters, and the server is checked once an
// hour.
func TestTwoClustersAreSaid(t *testing.T) {
	at := moment
	client, asked := holding(t, prometheus.Config{Now: func() time.Time { return at }}, twoClusters())
	read := func(after time.Duration) []string {
		at = moment.Add(-10 * time.Minute).Add(after)
		report, err := client.Read(t.Context(), usage.Query{Namespaces: []string{"shop"}, Start: at, End: at, Step: time.Minute, RateWindow: time.Minute}, func(usage.Series) {})
		require.NoError(t, err)
		return report.Warnings
	}
	for i := range 5 {
		require.Len(t, read(time.Duration(i)*time.Minute), 1)
	}
	assert.Contains(t, read(5 * time.Minute)[0], "the pod shop/web-0 in 2 clusters (label cluster)")
	assert.EqualValues(t, 6*2+3, asked.Load(), "three checks")
	assert.Empty(t, read(66*time.Minute), "there are none any more")
	assert.EqualValues(t, 7*2+2*3, asked.Load())
}

// TestNamesThatAreTooMany: a query never exceeds the length that servers accept, and additional data in the answer is
// dropped.
func TestNamesThatAreTooMany(t *testing.T) {
	series := map[string]func(int) (float64, bool){}
	for _, pod := range []string{"shop/web-7d4f8c9b6-aaaaa", "shop/webber-7d4f8c9b6-aaaaa", "other/web-7d4f8c9b6-aaaaa"} {
		namespace, name, _ := strings.Cut(pod, "/")
		series[inCluster("container_cpu_usage_seconds_total", "a", namespace, name)] = growing(1)
		series[inCluster("container_memory_working_set_bytes", "a", namespace, name)] = steady(1)
	}
	client, asked := holding(t, prometheus.Config{}, series)
	many := func(kind string, n int, own ...string) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("some-%s-with-a-name-%04d-", kind, i))
		}
		return append(names, own...)
	}
	for name, query := range map[string]usage.Query{
		"namespaces": {Namespaces: many("namespace", 1500, "shop"), PodPrefixes: []string{"web-"}},
		"workloads":  {Namespaces: []string{"shop"}, PodPrefixes: many("workload", 3000, "web-")},
		"both":       {Namespaces: many("namespace", 100, "shop"), PodPrefixes: many("workload", 100, "web-")},
		"neither":    {Namespaces: []string{"shop"}, PodPrefixes: []string{"web-"}},
	} {
		for _, waited := range []bool{false, true} {
			query.Start, query.End, query.Step, query.RateWindow, query.Waited = moment, moment, 5*time.Minute, time.Minute, waited
			before := asked.Load()
			got := map[string]bool{}
			_, err := client.Read(t.Context(), query, func(s usage.Series) { got[s.Namespace+"/"+s.Pod] = true })
			require.NoError(t, err, name)
			assert.Equal(t, map[string]bool{"shop/web-7d4f8c9b6-aaaaa": true}, got, name)
			assert.LessOrEqual(t, asked.Load()-before, int64(2+3), "holding() looks at how long each is")
		}
	}
}
