package prometheus_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

func TestExpressions(t *testing.T) {
	const fiveMinutes = 5 * time.Minute
	for _, test := range []struct {
		name        string
		query       usage.Query
		cpu, memory string
	}{
		{
			name:   "one namespace is compared, not matched",
			query:  usage.Query{Namespaces: []string{"shop"}, Step: fiveMinutes, RateWindow: fiveMinutes},
			cpu:    `max by (namespace,pod,container) (rate(container_cpu_usage_seconds_total{container!="",container!="POD",namespace="shop"}[300s]))`,
			memory: `max by (namespace,pod,container) (max_over_time(container_memory_working_set_bytes{container!="",container!="POD",namespace="shop"}[300s]))`,
		},
		{
			name:   "several, sorted and once each",
			query:  usage.Query{Namespaces: []string{"b", "a", "b"}, Step: fiveMinutes, RateWindow: 10 * time.Minute},
			cpu:    `max by (namespace,pod,container) (rate(container_cpu_usage_seconds_total{container!="",container!="POD",namespace=~"a|b"}[600s]))`,
			memory: `max by (namespace,pod,container) (max_over_time(container_memory_working_set_bytes{container!="",container!="POD",namespace=~"a|b"}[300s]))`,
		},
		{
			name:  "a rate window shorter than the step: the peaks as well",
			query: usage.Query{Namespaces: []string{"a"}, Step: time.Hour, RateWindow: 90 * time.Second},
			cpu: `max by (namespace,pod,container) (rate(container_cpu_usage_seconds_total{container!="",container!="POD",namespace="a"}[90s]))` +
				` or label_replace(max by (namespace,pod,container) (max_over_time(rate(container_cpu_usage_seconds_total{container!="",container!="POD",namespace="a"}[90s])[3600s:90s])),"attune_peak","true","","")`,
			memory: `max by (namespace,pod,container) (max_over_time(container_memory_working_set_bytes{container!="",container!="POD",namespace="a"}[3600s]))`,
		},
		{
			name:   "pods of some workloads only",
			query:  usage.Query{Namespaces: []string{"a"}, PodPrefixes: []string{"web.v2-", "api-"}, Step: fiveMinutes, RateWindow: fiveMinutes},
			cpu:    `max by (namespace,pod,container) (rate(container_cpu_usage_seconds_total{container!="",container!="POD",namespace="a",pod=~"(?:api-|web\\.v2-).*"}[300s]))`,
			memory: `max by (namespace,pod,container) (max_over_time(container_memory_working_set_bytes{container!="",container!="POD",namespace="a",pod=~"(?:api-|web\\.v2-).*"}[300s]))`,
		},
		{
			name:   "a step with a fraction of a second",
			query:  usage.Query{Namespaces: []string{"a"}, Step: 10500 * time.Millisecond, RateWindow: time.Minute},
			cpu:    `max by (namespace,pod,container) (rate(container_cpu_usage_seconds_total{container!="",container!="POD",namespace="a"}[60s]))`,
			memory: `max by (namespace,pod,container) (max_over_time(container_memory_working_set_bytes{container!="",container!="POD",namespace="a"}[10500ms]))`,
		},
		{
			name:   "names that would end the string or the expression are only names",
			query:  usage.Query{Namespaces: []string{`a"} or vector(1) #`, "a.*", `\`}, Step: fiveMinutes, RateWindow: fiveMinutes},
			cpu:    `max by (namespace,pod,container) (rate(container_cpu_usage_seconds_total{container!="",container!="POD",namespace=~"\\\\|a\"\\} or vector\\(1\\) #|a\\.\\*"}[300s]))`,
			memory: `max by (namespace,pod,container) (max_over_time(container_memory_working_set_bytes{container!="",container!="POD",namespace=~"\\\\|a\"\\} or vector\\(1\\) #|a\\.\\*"}[300s]))`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.cpu, prometheus.Everything.CPU(test.query))
			assert.Equal(t, test.memory, prometheus.Everything.Memory(test.query))
		})
	}
}

// TestExpressionsOfServers: a server may have CPU series per CPU, and its cluster is named.
func TestExpressionsOfServers(t *testing.T) {
	q := usage.Query{Namespaces: []string{"a"}, Step: time.Hour, RateWindow: 90 * time.Second}
	const rate = `(max without (cpu) (rate(container_cpu_usage_seconds_total{container!="",container!="POD",namespace="a",cluster="eu-1",cpu=~"total|"}[90s]))` +
		` or sum without (cpu) (rate(container_cpu_usage_seconds_total{container!="",container!="POD",namespace="a",cluster="eu-1",cpu!~"total|"}[90s])))`
	scope := prometheus.ScopeOf(map[string]string{"cluster": "eu-1"})
	assert.Equal(t, `max by (namespace,pod,container) (`+rate+`) or label_replace(max by (namespace,pod,container) (max_over_time(`+rate+`[3600s:90s])),"attune_peak","true","","")`, scope.CPU(q))
	assert.Equal(t, `max by (namespace,pod,container) (max_over_time(container_memory_working_set_bytes{container!="",container!="POD",namespace="a",cluster="eu-1"}[3600s]))`, scope.Memory(q))
}
