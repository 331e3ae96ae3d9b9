package prometheus_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

type seriesByText = map[string]func(int) (float64, bool)

// perCPU adds four series per CPU of 0.9 cores each; more are further labels.
func perCPU(all seriesByText, pod, more string) {
	for cpu := range 4 {
		all[fmt.Sprintf(`container_cpu_usage_seconds_total{namespace="shop",pod=%q,container="app",cpu="cpu%02d"%s}`, pod, cpu, more)] = growing(0.9)
	}
}

// TestPerCPUSeriesAreSummed: usage is the sum over CPUs, once for each scraper and each run of the container, and a total
// takes precedence.
func TestPerCPUSeriesAreSummed(t *testing.T) {
	all := seriesByText{}
	total := func(pod, more string, cores float64) {
		all[fmt.Sprintf(`container_cpu_usage_seconds_total{namespace="shop",pod=%q,container="app"%s}`, pod, more)] = growing(cores)
	}
	perCPU(all, "per-cpu-only", "")
	perCPU(all, "with-total", "")
	total("with-total", `,cpu="total"`, 3.6)
	total("total-only", `,cpu="total"`, 3.6)
	total("no-label", "", 3.6)
	perCPU(all, "scraped-twice", `,service="a-kubelet"`)
	perCPU(all, "scraped-twice", `,service="b-kubelet"`)
	perCPU(all, "total-of-one-scraper", `,service="a-kubelet"`)
	total("total-of-one-scraper", `,cpu="total",service="b-kubelet"`, 3.6)
	total("total-and-no-label", `,cpu="total",service="a-kubelet"`, 3.6)
	total("total-and-no-label", `,service="a-kubelet"`, 3.6)
	for run := range 5 {
		perCPU(all, "five-runs", fmt.Sprintf(`,id="/kubepods/%d"`, run))
	}
	for cpu := range 4 {
		all[fmt.Sprintf(`container_cpu_usage_seconds_total{id="/",node="a",cpu="cpu%02d"}`, cpu)] = growing(0.9)
	}
	client, _ := holding(t, prometheus.Config{}, all)

	for _, window := range []time.Duration{2 * time.Minute, 5 * time.Minute} {
		for _, waited := range []bool{false, true} {
			cpu, peaks := map[string]float64{}, map[string]float64{}
			query := usage.Query{Namespaces: []string{"shop"}, Start: moment, End: moment, Step: 4 * time.Minute, RateWindow: window, Waited: waited}
			_, err := client.Read(t.Context(), query, func(s usage.Series) {
				for _, sample := range s.CPU {
					cpu[s.Pod] = sample.Value
				}
				for _, sample := range s.CPUPeak {
					peaks[s.Pod] = sample.Value
				}
			})
			require.NoError(t, err)
			want := map[string]float64{}
			for _, pod := range []string{"per-cpu-only", "with-total", "total-only", "no-label", "scraped-twice", "total-of-one-scraper", "total-and-no-label", "five-runs"} {
				want[pod] = 3.6
			}
			assert.InDeltaMapValues(t, want, cpu, 1e-6, "window %s", window)
			if window < query.Step && !waited {
				assert.InDeltaMapValues(t, want, peaks, 1e-6)
			}
		}
	}
	for name, expression := range map[string]string{
		"container": client.Scope().Used("shop", "scraped-twice", "app", 5*time.Minute),
		"node":      client.Scope().NodeUsage("a", 5*time.Minute),
	} {
		cores, err := client.Value(t.Context(), expression, moment)
		require.NoError(t, err, name)
		assert.InDelta(t, 3.6, cores, 1e-6, name)
	}
	nodes, err := prometheus.AskNodes(t.Context(), client.Scope().NodesUsage(5*time.Minute), moment, client.Range)
	require.NoError(t, err)
	assert.InDeltaMapValues(t, map[string]float64{"a": 3.6}, nodes, 1e-6)
}

// warnings are those of the answer about the namespace shop.
func warnings(t *testing.T, all seriesByText) []string {
	t.Helper()
	client, _ := holding(t, prometheus.Config{}, all)
	report, err := client.Read(t.Context(), usage.Query{Namespaces: []string{"shop"}, Start: moment, End: moment, Step: time.Minute, RateWindow: 5 * time.Minute},
		func(usage.Series) {})
	require.NoError(t, err)
	return report.Warnings
}

// cadvisor has the metrics of a cAdvisor for one container with a CPU limit, by the labels that name it.
func cadvisor(names string) seriesByText {
	all := seriesByText{}
	for metric, of := range map[string]func(int) (float64, bool){
		"container_cpu_usage_seconds_total": growing(0.1), "container_memory_working_set_bytes": steady(1e8), "container_oom_events_total": steady(0),
		"container_cpu_cfs_periods_total": growing(10), "container_cpu_cfs_throttled_periods_total": growing(0), "container_spec_cpu_quota": steady(50000),
		"container_pressure_cpu_waiting_seconds_total": growing(0.01),
	} {
		all[metric+"{"+names+"}"] = of
	}
	return all
}

const ofWeb = `namespace="shop",pod="web-1",container="app",instance="10.0.0.1:10250"`

// without drops metrics.
func without(all seriesByText, metrics ...string) seriesByText {
	for _, metric := range metrics {
		delete(all, metric+"{"+ofWeb+"}")
	}
	return all
}

// TestWhatAServerLacksIsSaid: a server without the samples that attune judges regressions by, or without names of
// containers, is named with the cause and the fix.
func TestWhatAServerLacksIsSaid(t *testing.T) {
	const oom, periods, quota, pressure = "container_oom_events_total", "container_cpu_cfs_periods_total", "container_spec_cpu_quota", "container_pressure_cpu_waiting_seconds_total"
	lacks := []string{"it has no samples of container_oom_events_total, so attune cannot check resized pods for OOM kills of child processes: keep the samples of " +
		"/metrics/cadvisor in the scrape configuration"}
	with := func(sets ...seriesByText) seriesByText {
		all := seriesByText{}
		for _, set := range sets {
			maps.Copy(all, set)
		}
		return all
	}
	podsOnly := cadvisor(`namespace="shop",pod="web-2",id="/kubepods/burstable/pod1234",instance="10.0.0.2:10250"`)
	drops := []string{"1 of its scrape targets report usage of pods, but of no containers, because the container runtime or a relabeling rule drops the label container: " +
		"keep the label, or scrape /metrics/resource of the kubelets"}
	renamed := func(label, fix string) []string {
		return []string{"it has series with the names of containers in the label " + label + ", which attune does not use: " + fix}
	}
	const rename = "rename the label to container, or scrape /metrics/cadvisor of the kubelets"
	for name, test := range map[string]struct {
		all  seriesByText
		want []string
	}{
		"a kubelet":                       {cadvisor(ofWeb), nil},
		"nothing at all":                  {seriesByText{}, nil},
		"throttled seconds are not used":  {without(cadvisor(ofWeb), "container_cpu_cfs_throttled_seconds_total"), nil},
		"an allow-list of CPU and memory": {without(cadvisor(ofWeb), oom, periods, quota, pressure), lacks},
		"an allow-list with throttling":   {without(cadvisor(ofWeb), oom, quota, pressure), lacks},
		"no container has a CPU limit":    {without(cadvisor(ofWeb), periods, quota), nil},
		"throttling is dropped":           {without(cadvisor(ofWeb), periods), nil},
		"a cluster without pressure":      {without(cadvisor(ofWeb), pressure), nil},
		"a kernel without pressure":       {with(cadvisor(ofWeb), seriesByText{pressure + "{" + ofWeb + "}": steady(0)}), nil},
		"OOM kills of another namespace":  {with(without(cadvisor(ofWeb), oom), cadvisor(`namespace="bank",pod="web-1",container="app",instance="10.0.0.1:10250"`)), lacks},
		"a namespace without pods, and a standalone cAdvisor": {with(cadvisor(`namespace="kube-system",pod="dns-1",container="dns"`),
			cadvisor(`container_label_io_kubernetes_pod_name="web-1",container_label_io_kubernetes_container_name="app"`)), nil},
		"pods' own cgroups alone":        {podsOnly, drops},
		"one of two kubelets drops it":   {with(cadvisor(ofWeb), podsOnly), drops},
		"a pod's own cgroup beside":      {with(cadvisor(ofWeb), cadvisor(`namespace="shop",pod="web-1",instance="10.0.0.1:10250"`)), nil},
		"a standalone cAdvisor":          {cadvisor(`container_label_io_kubernetes_pod_name="web-1",container_label_io_kubernetes_container_name="app"`), renamed("container_label_io_kubernetes_container_name", rename)},
		"a standalone cAdvisor beside":   {with(cadvisor(ofWeb), cadvisor(`container_label_io_kubernetes_pod_name="web-1",container_label_io_kubernetes_container_name="app"`)), nil},
		"names of old kubelets":          {cadvisor(`namespace="shop",pod_name="web-1",container_name="app"`), renamed("container_name", rename)},
		"names that the target replaced": {cadvisor(`exported_namespace="shop",exported_pod="web-1",exported_container="app",namespace="monitoring",pod="cadvisor-1",container="cadvisor"`), renamed("exported_container", "set honorLabels: true where the kubelets are scraped")},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, warnings(t, test.all)) })
	}
}

// TestTwoWritersOfOneSeriesAreSaid: interleaved counters fall at every second sample. A container that restarts falls less
// often.
func TestTwoWritersOfOneSeriesAreSaid(t *testing.T) {
	of := func(counter func(minutes int) (float64, bool)) []string {
		all := cadvisor(ofWeb)
		all["container_cpu_usage_seconds_total{"+ofWeb+"}"] = counter
		return warnings(t, all)
	}
	alternating := func(one, other float64) func(int) (float64, bool) {
		return func(minutes int) (float64, bool) {
			if minutes%2 == 0 {
				return one - float64(minutes), true
			}
			return other - float64(minutes), true
		}
	}
	for name, counter := range map[string]func(int) (float64, bool){
		"an old and a young server": alternating(48_000, 200), "a little out of step": alternating(600, 590), "a tiny fall": alternating(86_400, 86_398.4),
	} {
		got := of(counter)
		require.Len(t, got, 1, name)
		assert.Regexp(t, `^the CPU counter of container app of pod shop/web-1 fell [45] times in 10m0s: two servers write one series\. `+
			`Enable deduplication, or give each server a label of its own$`, got[0], name)
	}
	assert.Empty(t, of(func(minutes int) (float64, bool) { return float64(3 - minutes%3), true }), "it restarts every three minutes")
}

// TestChecksAreOnceAnHour: by the clock, also while a backfill alternates queries about the past and about new steps, and
// never about the past.
func TestChecksAreOnceAnHour(t *testing.T) {
	now := moment
	client, asked := holding(t, prometheus.Config{Now: func() time.Time { return now }}, cadvisor(ofWeb))
	read := func(end time.Time) int64 {
		before := asked.Load()
		_, err := client.Read(t.Context(), usage.Query{Namespaces: []string{"shop"}, Start: end, End: end, Step: time.Minute, RateWindow: time.Minute}, func(usage.Series) {})
		require.NoError(t, err)
		return asked.Load() - before - 2
	}
	for day := range 14 {
		assert.Zero(t, read(moment.Add(-time.Duration(day+1)*24*time.Hour)), "the past")
		assert.EqualValues(t, map[bool]int{true: 3}[day == 0], read(moment), "new steps")
	}
	now = now.Add(time.Hour - time.Second)
	assert.Zero(t, read(moment))
	assert.Zero(t, read(now))
	now = now.Add(time.Second)
	assert.Zero(t, read(moment), "the past")
	assert.EqualValues(t, 3, read(now))
}

// TestASlowCheckDelaysNoRead: neither the read that starts it nor others. Its end is not waited for, and its failure is not
// repeated within the hour.
func TestASlowCheckDelaysNoRead(t *testing.T) {
	var checks atomic.Int64
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.FormValue("query"), "topk(") {
			checks.Add(1)
			<-r.Context().Done()
		}
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
	}))
	t.Cleanup(slow.Close)
	client := newClient(t, prometheus.Config{Address: slow.URL, Timeout: 3 * time.Second, Now: func() time.Time { return moment }})
	for range 2 {
		took := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				began := time.Now()
				_, err := client.Read(t.Context(), usage.Query{Namespaces: []string{"shop"}, Start: moment, End: moment, Step: time.Minute, RateWindow: time.Minute}, func(usage.Series) {})
				assert.NoError(t, err)
				took <- time.Since(began)
			}()
		}
		for range 2 {
			assert.Less(t, <-took, 2*time.Second)
		}
	}
	assert.EqualValues(t, 1, checks.Load(), "those after a failed one are not sent")
}
