package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// promised are the metrics that users' dashboards and alerts rely on, with their labels.
var promised = map[string]string{
	"attune_node_load_ratio":                   "node",
	"attune_recommendation_cpu_cores":          "namespace kind workload container",
	"attune_recommendation_memory_bytes":       "namespace kind workload container",
	"attune_confidence":                        "namespace kind workload container",
	"attune_burst_factor":                      "namespace kind workload container resource",
	"attune_savings_cpu_cores":                 "namespace",
	"attune_savings_memory_bytes":              "namespace",
	"attune_resize_total":                      "namespace kind workload resource result",
	"attune_resize_duration_seconds":           "namespace kind workload",
	"attune_eviction_total":                    "namespace kind workload result",
	"attune_reverts_total":                     "namespace kind workload reason",
	"attune_pass_incomplete_total":             "what",
	"attune_reconcile_duration_seconds":        "controller",
	"attune_reconcile_errors_total":            "error_type",
	"attune_prometheus_query_duration_seconds": "query_type",
	"attune_prometheus_query_errors_total":     "namespace query_type",
	"attune_admission_duration_seconds":        "",
	"attune_admission_total":                   "result",
	"attune_usage_samples_total":               "source",
	"attune_usage_query_seconds":               "source",
}

var describes = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// registered returns attune's metrics and their labels from the operator's registry.
func registered(t *testing.T) map[string]string {
	t.Helper()
	registry, ok := metrics.Registry.(prometheus.Collector)
	require.True(t, ok)
	descs := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descs)
		close(descs)
	}()
	all := map[string]string{}
	for desc := range descs {
		found := describes.FindStringSubmatch(desc.String())
		require.NotNil(t, found, desc.String())
		if name := found[1]; strings.HasPrefix(name, "attune_") {
			all[name] = strings.ReplaceAll(found[2], ",", " ")
		}
	}
	return all
}

// registerOnce registers in the process's own registry, where controller-runtime's metrics are too.
var registerOnce = sync.OnceFunc(func() {
	newMeters(&Options{program: everything, usage: usageOptions{source: sourceEmbedded}}, metrics.Registry)
})

// The operator has every promised metric with its labels, and docs/metrics.md documents exactly these metrics.
func TestMetrics(t *testing.T) {
	registerOnce()
	all := registered(t)
	for name, labels := range promised {
		got, ok := all[name]
		if assert.True(t, ok, "%s is missing", name) {
			assert.Equal(t, labels, got, name)
		}
	}
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(attune_[a-z_]+)` \\|([a-z_`, ]*)\\|").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = strings.Join(strings.FieldsFunc(row[2], func(r rune) bool { return strings.ContainsRune("`, ", r) }), " ")
	}
	for name, labels := range documented {
		got, ok := all[name]
		assert.True(t, ok && got == labels, "docs/metrics.md has %s with the labels %q, the operator with %q", name, labels, got)
	}
	for name := range all {
		assert.Contains(t, documented, name, "docs/metrics.md")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, label := range strings.Fields(all[name]) {
			assert.NotContains(t, []string{"pod", "uid", "pod_uid", "image", "query"}, label, "%s grows with every pod", name)
		}
	}
}
