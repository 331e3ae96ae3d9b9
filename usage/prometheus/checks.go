package prometheus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"attune.io/attune/usage"
)

// checksEvery is how often a server's data is checked.
const checksEvery = time.Hour

// finding is one series of a check's answer.
type finding struct {
	of    Labels
	value float64
}

// dataChecks are the checks of a server's data. The answer to expression is empty if nothing is wrong. warning says what
// is wrong, why, and what to do; empty: nothing is wrong. The first check is for servers of unnamed clusters.
var dataChecks = [...]struct {
	expression func(Scope, usage.Query) string
	warning    func([]finding) string
}{{Scope.SeveralClusters, clustersWarning}, {Scope.twoWriters, writersWarning}, {Scope.missing, missingWarning}}

// checks has the warnings about a server's data, which each answer repeats until a later check finds nothing. mutex
// guards the fields below it.
type checks struct {
	// cluster is true if the operator or the policy names the cluster.
	cluster bool
	mutex   sync.Mutex
	// asked is when the server was last checked, by the end of the query.
	asked    time.Time
	warnings [len(dataChecks)]string
}

// warn adds the warnings to the report. It checks the server once in checksEvery. After a failure the previous warnings
// stay, and the failure is not reported, because the caller has its answer.
func (c *checks) warn(ctx context.Context, client *Client, query usage.Query, report *usage.Report) {
	if len(query.Namespaces) == 0 {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if query.End.Sub(c.asked) >= checksEvery || query.End.Before(c.asked.Add(-checksEvery)) {
		c.asked = query.End
		c.ask(ctx, client, query)
	}
	for _, warning := range c.warnings {
		if warning != "" {
			report.Warn(warning)
		}
	}
}

// ask runs the checks, up to the first one that the server does not answer completely. The caller holds mutex.
func (c *checks) ask(ctx context.Context, client *Client, query usage.Query) {
	asked := query.Asked()
	for i, check := range dataChecks {
		if i == 0 && c.cluster {
			continue
		}
		var found []finding
		said, err := client.Range(ctx, check.expression(client.scope, query), once(query.End), func(e Element) {
			if len(e.Samples) == 1 && (e.Labels.Namespace == "" || asked.Namespace(e.Labels.Namespace)) {
				found = append(found, finding{e.Labels, e.Samples[0].Value})
			}
		})
		if err != nil || said.Partial {
			return
		}
		c.warnings[i] = check.warning(found)
	}
}

// clusterLabel distinguishes the clusters of one server, by the convention of Thanos, Mimir and their charts.
const clusterLabel = "cluster"

// SeveralClusters is the PromQL expression of one container with series from more than one cluster; its value is their
// number. Their usage counts as the usage of one pod, and the highest value counts.
func (s Scope) SeveralClusters(q usage.Query) string {
	each := fmt.Sprintf("count by (namespace,pod,container,%s) (container_memory_working_set_bytes{%s,%s!=\"\"})", clusterLabel, s.selector(q), clusterLabel)
	return fmt.Sprintf("topk(1, count by (namespace,pod,container) (%s) > 1)", each)
}

func clustersWarning(found []finding) string {
	if len(found) == 0 || found[0].value < 2 {
		return ""
	}
	return fmt.Sprintf("it has the pod %s/%s in %.0f clusters (label %s), and attune counts their usage as one pod: set metricsSource.labels or "+
		"usage.prometheus.matchers, e.g. {%s: eu-1}", found[0].of.Namespace, found[0].of.Pod, found[0].value, clusterLabel, clusterLabel)
}

// mostFalls is how often a CPU counter may fall within writersWindow, because a container restarts.
const mostFalls, writersWindow = 3, 10 * time.Minute

// twoWriters is the PromQL expression of one container whose CPU counter falls at 40 % of its samples or more; its value
// is how often. The counters of two servers in one series fall at every second sample.
func (s Scope) twoWriters(q usage.Query) string {
	of := fmt.Sprintf("(container_cpu_usage_seconds_total{%s}[%s])", s.selector(q), span(writersWindow))
	return fmt.Sprintf("topk(1, max by (namespace,pod,container) (resets%s > %d and resets%s >= 0.4 * count_over_time%s))", of, mostFalls, of, of)
}

func writersWarning(found []finding) string {
	if len(found) == 0 || found[0].value <= mostFalls {
		return ""
	}
	return fmt.Sprintf("the CPU counter of container %s of pod %s/%s fell %.0f times in %s: two servers write one series. Enable deduplication, or give "+
		"each server a label of its own", found[0].of.Container, found[0].of.Namespace, found[0].of.Pod, found[0].value, writersWindow)
}

// otherNames are labels with the names of containers, in series without the label container.
var otherNames = []string{"exported_container", "container_name", "container_label_io_kubernetes_container_name"}

// watched are the metrics that regressions are judged by, with what cannot be judged without them.
var watched = []struct{ metric, cannot string }{
	{"container_oom_events_total", "OOM kills of child processes"},
	{"container_cpu_cfs_periods_total", "CPU throttling"},
	{"container_pressure_cpu_waiting_seconds_total", "waits for CPU"},
}

// missing is the PromQL expression of what cAdvisor reports and the server does not have. Each element names it in the
// label container: one of watched, one of otherNames, or "container", whose value is the number of scrape targets with
// usage of pods, but of no containers.
//
// No scope by namespaces: a namespace may have no container with a CPU limit. Pressure that is always 0 comes from a
// kernel without PSI. Throttling needs a container with a CPU limit; a server that drops the limits is taken to have one
// if it drops the OOM kills, too.
func (s Scope) missing(usage.Query) string {
	const cpu = "container_cpu_usage_seconds_total"
	of := func(metric, matchers string) string { return metric + "{" + matchers + s.matchers + "}" }
	named := func(metric string) string { return of(metric, `container!="",container!="POD"`) }
	none := func(metric string) string { return "absent(" + named(metric) + ")" }
	known := " unless on () " + none(cpu)
	found := []struct{ name, expression string }{
		{otherNames[0], fmt.Sprintf("count(%s)", of(cpu, otherNames[0]+`!=""`))},
		{otherNames[1], fmt.Sprintf("count(%s) unless on () count(%s)", of(cpu, otherNames[1]+`!="",container=""`), named(cpu))},
		{otherNames[2], fmt.Sprintf("count(%s) unless on () count(%s)", of(cpu, otherNames[2]+`!="",container=""`), named(cpu))},
		{"container", fmt.Sprintf("count(count by (instance) (%s) unless on (instance) count by (instance) (%s))", of(cpu, `container="",pod!=""`), named(cpu))},
		{watched[0].metric, none(watched[0].metric) + known},
		{watched[1].metric, fmt.Sprintf("%s and on () (count(%s) or %s)%s", none(watched[1].metric), named("container_spec_cpu_quota"), none(watched[0].metric), known)},
		{watched[2].metric, fmt.Sprintf("absent(%s > 0)%s", named(watched[2].metric), known)},
	}
	var each []string
	for _, f := range found {
		each = append(each, fmt.Sprintf("label_replace(%s,%q,%q,%q,%q)", f.expression, "container", f.name, "", ""))
	}
	return fmt.Sprintf("topk(%d, %s)", len(found), strings.Join(each, " or "))
}

func missingWarning(found []finding) string {
	var all, metrics, cannot []string
	has := func(name string) int {
		return slices.IndexFunc(found, func(f finding) bool { return f.of.Container == name })
	}
	for i, name := range otherNames {
		fix := "rename the label to container, or scrape /metrics/cadvisor of the kubelets"
		if i == 0 {
			fix = "set honorLabels: true where the kubelets are scraped"
		}
		if has(name) >= 0 {
			all = append(all, fmt.Sprintf("it has the names of containers in the label %s, so attune finds no usage: %s", name, fix))
		}
	}
	if i := has("container"); i >= 0 && len(all) == 0 {
		all = append(all, fmt.Sprintf("%.0f of its scrape targets report usage of pods, but of no containers, because the container runtime or a relabeling "+
			"rule drops the label container: keep the label, or scrape /metrics/resource of the kubelets", found[i].value))
	}
	for _, w := range watched {
		if has(w.metric) >= 0 {
			metrics, cannot = append(metrics, w.metric), append(cannot, w.cannot)
		}
	}
	if len(metrics) > 0 {
		all = append(all, fmt.Sprintf("it has no samples of %s, so attune cannot check resized pods for %s: keep the samples of /metrics/cadvisor "+
			"in the scrape configuration", strings.Join(metrics, ", "), strings.Join(cannot, ", ")))
	}
	return strings.Join(all, "; ")
}
