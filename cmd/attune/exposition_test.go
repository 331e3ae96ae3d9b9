package main

import (
	"flag"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/internal/answers"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/usage"
	"attune.io/attune/webhook/pod"
)

var update = flag.Bool("update", false, "write the exposition that the tests of dashboards and alerts read")

// exposition is a scrape of the operator in which every metric has a value. Dashboards and alerts are tested with it
// (test/tsdb/monitoring).
const exposition = "../../test/tsdb/monitoring/testdata/operator.prom"

// exposes is set in the environment of the process that creates the exposition. It needs its own process, because
// other tests of this package count in the same registry.
const exposes = "ATTUNE_TEST_EXPOSES"

// foreign are the metrics of controller-runtime that dashboards and alerts use.
var foreign = []string{"leader_election_master_status", "certwatcher_read_certificate_total", "certwatcher_read_certificate_errors_total"}

// rows has the label values of every metric, in the order of the labels. A metric without labels has one empty row.
var rows = map[string][][]string{
	"leader_election_master_status":             {{answers.LeaseName}},
	"certwatcher_read_certificate_total":        {{}},
	"certwatcher_read_certificate_errors_total": {{}},

	"attune_recommendation_cpu_cores":    containers,
	"attune_recommendation_memory_bytes": containers,
	"attune_confidence":                  containers,
	"attune_burst_factor":                {{"shop", "Deployment", "web", "app", "cpu"}, {"shop", "StatefulSet", "db", "postgres", "memory"}},
	"attune_savings_cpu_cores":           {{"shop"}, {"batch"}},
	"attune_savings_memory_bytes":        {{"shop"}, {"batch"}},

	"attune_pods":               {{"shop"}, {"batch"}},
	"attune_saved_cpu_cores":    {{"shop"}, {"batch"}},
	"attune_saved_memory_bytes": {{"shop"}, {"batch"}},
	"attune_resizes_blocked":    {{resize.ReasonNoRoom}, {resize.ReasonQuota}},

	"attune_resize_total": {
		{"shop", "Deployment", "web", "cpu", "success"}, {"shop", "Deployment", "web", "memory", "success"},
		{"shop", "Deployment", "web", "memory", "reverted"}, {"shop", "StatefulSet", "db", "memory", "failed"},
	},
	"attune_resize_duration_seconds": workloads,
	"attune_reverts_total": {
		{"shop", "Deployment", "web", string(resize.HarmOOM)}, {"shop", "Deployment", "web", string(resize.HarmThrottle)},
		{"shop", "StatefulSet", "db", string(resize.HarmNotReady)},
	},
	"attune_memory_raises_total": {
		{"shop", "StatefulSet", "db", "raised"}, {"shop", "StatefulSet", "db", "restored"}, {"shop", "Deployment", "web", "failed"},
	},
	"attune_reverts_pending": {{"shop", "StatefulSet", "db"}},
	"attune_eviction_total": {
		{"shop", "Deployment", "web", string(lifecycle.EvictionGranted)}, {"shop", "StatefulSet", "db", string(lifecycle.EvictionDenied)},
	},
	"attune_pass_incomplete_total":      {{"node"}, {"unsettled"}},
	"attune_admission_total":            {{string(pod.Seeded)}, {string(pod.NoRecommendation)}, {string(pod.Failed)}},
	"attune_admission_duration_seconds": {{}},
	"attune_webhook_dropped_total":      {{"Busy"}, {"Slow"}, {"TooLarge"}, {"Broken"}, {"Connections"}},
	"attune_connections_dropped_total":  {{"metrics"}, {"probes"}},

	"attune_bridge_vpa_objects": {{"published"}, {"behind"}, {"foreign"}},

	"attune_node_pods":                  {{"node-1"}, {"node-2"}},
	"attune_node_overcommitted":         {{"node-1", "cpu"}, {"node-1", "memory"}},
	"attune_node_evictions_wanted":      {{"node-1"}},
	"attune_node_headroom_cpu_cores":    {{"node-1"}, {"node-2"}},
	"attune_node_headroom_memory_bytes": {{"node-1"}, {"node-2"}},
	"attune_node_load_ratio":            {{"node-1"}},
	"attune_node_grants_total":          {{"node-1", "lowered"}, {"node-1", "raised"}},

	"attune_reconcile_duration_seconds":            {{"policy"}, {"workload"}, {"node"}},
	"attune_reconcile_errors_total":                {{"Conflict"}, {"Forbidden"}},
	"attune_certificate_expiry_timestamp_seconds":  {{certificateOfWebhook}, {certificateOfMetrics}},
	"attune_usage_samples_total":                   {{sourceEmbedded}, {sourcePrometheus}},
	"attune_usage_newest_sample_timestamp_seconds": {{sourceEmbedded}, {sourcePrometheus}},
	"attune_usage_samples_dropped_total":           {{sourceEmbedded, usage.DropClock.Label()}},
	"attune_usage_query_seconds":                   {{sourceEmbedded}},
	"attune_usage_series":                          {{}},
	"attune_usage_recent_containers":               {{}},
	"attune_usage_recent_refused":                  {{"shop"}},
	"attune_usage_near_left":                       {{}},
	"attune_usage_shortened_namespaces":            {{}},
	"attune_kubelet_scrapes_total":                 {{"success"}, {"failed"}},
	"attune_kubelet_scrape_seconds":                {{}},
	"attune_kubelets_scraped_often":                {{"near"}, {"high"}},
	"attune_kubelet_scrape_late_seconds":           {{}},
	"attune_prometheus_query_duration_seconds":     {{"usage"}, {"slo"}},
	"attune_prometheus_query_errors_total":         {{"", "usage"}, {"shop", "slo"}},
}

var (
	containers = [][]string{{"shop", "Deployment", "web", "app"}, {"shop", "StatefulSet", "db", "postgres"}, {"batch", "CronJob", "report", "report"}}
	workloads  = [][]string{{"shop", "Deployment", "web"}, {"shop", "StatefulSet", "db"}}
)

// constant are the metrics that no collector stores: each scrape creates them from the state of the loops.
var constant = []string{
	"attune_recommendation_cpu_cores", "attune_recommendation_memory_bytes", "attune_confidence", "attune_burst_factor",
	"attune_pods", "attune_saved_cpu_cores", "attune_saved_memory_bytes", "attune_resizes_blocked",
	"attune_savings_cpu_cores", "attune_savings_memory_bytes", "attune_certificate_expiry_timestamp_seconds",
}

// TestExposition checks that the exposition has every metric of the operator, as the operator's own collectors expose
// it.
func TestExposition(t *testing.T) {
	if os.Getenv(exposes) != "" {
		require.NoError(t, os.WriteFile(os.Getenv(exposes), []byte(expose(t)), 0o600))
		return
	}
	made := t.TempDir() + "/operator.prom"
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestExposition$")
	child.Env = append(os.Environ(), exposes+"="+made)
	out, err := child.CombinedOutput()
	require.NoError(t, err, string(out))
	got, err := os.ReadFile(made)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(exposition, got, 0o600))
	}
	want, err := os.ReadFile(exposition)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "go test ./cmd/attune -run TestExposition -update")
}

// expose sets a value in every metric and scrapes them.
func expose(t *testing.T) string {
	registerOnce()
	all := registered(t)
	for _, name := range foreign {
		all[name] = ""
	}
	require.Equal(t, slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(rows)), "every metric needs rows")
	made := prometheus.NewRegistry()
	descs := described(t)
	for name := range all {
		desc, value := descs[name], valueOf(name)
		for i, row := range rows[name] {
			if slices.Contains(constant, name) {
				made.MustRegister(one{prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value+float64(i)/4, row...)})
				continue
			}
			set(t, existing(t, desc), value, row)
		}
	}
	return scraped(t, prometheus.Gatherers{metrics.Registry, made}, all)
}

// valueOf returns a plausible value of a metric. Most are 2, which is arbitrary.
func valueOf(name string) float64 {
	switch name {
	case "attune_recommendation_memory_bytes", "attune_savings_memory_bytes", "attune_saved_memory_bytes", "attune_node_headroom_memory_bytes":
		return 512 << 20
	case "attune_certificate_expiry_timestamp_seconds":
		return 90 * 24 * 3600
	case "attune_confidence", "attune_node_load_ratio":
		return .5
	case "attune_node_overcommitted", "leader_election_master_status":
		return 1
	}
	return 2
}

// described returns the descriptions of all registered metrics by name.
func described(t *testing.T) map[string]*prometheus.Desc {
	t.Helper()
	to := make(chan *prometheus.Desc)
	go func() {
		metrics.Registry.(prometheus.Collector).Describe(to)
		close(to)
	}()
	all := map[string]*prometheus.Desc{}
	for desc := range to {
		if found := describes.FindStringSubmatch(desc.String()); found != nil {
			all[found[1]] = desc
		}
	}
	return all
}

// probe has only the description of a metric. A registry that has the metric responds with the metric's collector.
type probe struct{ desc *prometheus.Desc }

func (p probe) Describe(to chan<- *prometheus.Desc) { to <- p.desc }
func (p probe) Collect(chan<- prometheus.Metric)    {}

// existing returns the collector of a metric.
func existing(t *testing.T, desc *prometheus.Desc) prometheus.Collector {
	t.Helper()
	var there prometheus.AlreadyRegisteredError
	require.ErrorAs(t, metrics.Registry.Register(probe{desc}), &there, desc.String())
	return there.ExistingCollector
}

// set sets a metric to a value. A histogram observes the value and a tenth of it; without labels a thousandth of both.
func set(t *testing.T, collector prometheus.Collector, value float64, labels []string) {
	t.Helper()
	switch of := collector.(type) {
	case *prometheus.CounterVec:
		of.WithLabelValues(labels...).Add(value)
	case *prometheus.GaugeVec:
		of.WithLabelValues(labels...).Set(value)
	case *prometheus.HistogramVec:
		of.WithLabelValues(labels...).Observe(value)
		of.WithLabelValues(labels...).Observe(value / 10)
	case prometheus.Histogram:
		of.Observe(value / 1000)
		of.Observe(value / 10000)
	case prometheus.Gauge:
		of.Set(value)
	case prometheus.Counter:
		of.Add(value)
	default:
		require.Fail(t, "unknown collector", "%T", collector)
	}
}

// one is a collector of one metric.
type one struct{ metric prometheus.Metric }

func (o one) Describe(chan<- *prometheus.Desc)    {}
func (o one) Collect(to chan<- prometheus.Metric) { to <- o.metric }

// scraped returns the exposition of these metrics as a Prometheus server gets it.
func scraped(t *testing.T, from prometheus.Gatherer, names map[string]string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(from, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, answer.Code)
	var b strings.Builder
	kept := false
	for line := range strings.Lines(answer.Body.String()) {
		if help, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, _, _ := strings.Cut(help, " ")
			_, kept = names[name]
		}
		if kept {
			b.WriteString(line)
		}
	}
	return b.String()
}
