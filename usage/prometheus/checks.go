package prometheus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/usage"
)

const (
	// checksEvery is how often a server's data is checked.
	checksEvery = time.Hour
	// checksTimeout bounds all checks together, checksPatience how long the read that starts them waits for them.
	checksTimeout, checksPatience = 10 * time.Second, 500 * time.Millisecond
)

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
	now     func() time.Time
	mutex   sync.Mutex
	// asked is when the server was last checked.
	asked    time.Time
	warnings [len(dataChecks)]string
}

// warn adds the warnings to the report. After a query about the present it checks the server, once in checksEvery, and
// does not wait for a slow check: later answers have its warning. After a failure the previous warnings stay, and the
// failure is not reported, because the caller has its answer.
func (c *checks) warn(ctx context.Context, client *Client, query usage.Query, report *usage.Report) {
	if len(query.Namespaces) == 0 {
		return
	}
	if c.due(query) {
		checked := make(chan struct{})
		go func() {
			defer close(checked)
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), checksTimeout)
			defer cancel()
			c.ask(bounded, client, query)
		}()
		select {
		case <-checked:
		case <-ctx.Done():
		case <-time.After(checksPatience):
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, warning := range c.warnings {
		if warning != "" {
			report.Warn(warning)
		}
	}
}

// due reports whether the caller must check the server now.
func (c *checks) due(query usage.Query) bool {
	now := c.now()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if now.Sub(query.End) >= checksEvery || now.Sub(c.asked) < checksEvery {
		return false
	}
	c.asked = now
	return true
}

// ask runs the checks, up to the first one that the server does not answer completely.
func (c *checks) ask(ctx context.Context, client *Client, query usage.Query) {
	asked := query.Asked()
	query.PodPrefixes = nil
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
		c.mutex.Lock()
		c.warnings[i] = check.warning(found)
		c.mutex.Unlock()
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
	return fmt.Sprintf("topk(1, max by (namespace,pod,container) (resets%s >= 0.4 * count_over_time%s) > %d)", of, of, mostFalls)
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

// oomEvents is the metric of OOM kills. Every kubelet reports it for every container. Missing throttling and pressure
// are no warning: a cluster may have no CPU limits, or no PSI. The end of an observation names them (package harm).
const oomEvents = "container_oom_events_total"

// missing is the PromQL expression of what cAdvisor reports and the server does not have. Each element names it in the
// label container: oomEvents, one of otherNames, or "container", whose value is the number of scrape targets with
// usage of pods, but of no containers.
//
// At one moment it selects the CPU counters of the query's namespaces three times, those of the pods' own cgroups once
// and their OOM counters once: less than Scope.CPU, which reads a whole window of samples. Other series are selected by a
// label of otherNames, which healthy servers do not have, and are not limited to namespaces: their label namespace is
// another one or missing.
func (s Scope) missing(q usage.Query) string {
	const cpu = "container_cpu_usage_seconds_total"
	of := func(matchers string) string { return cpu + "{" + matchers + s.matchers + "}" }
	selector := s.selector(q)
	named := cpu + "{" + selector + "}"
	pods := cpu + "{" + strings.Replace(selector, namesOnly, `container="",pod!=""`, 1) + "}"
	q.Namespaces = append([]string{metav1.NamespaceSystem}, q.Namespaces...) // the query's may have no running pod
	label := func(expression, name string) string {
		return fmt.Sprintf("label_replace(%s,%q,%q,%q,%q)", expression, "container", name, "", "")
	}
	old := func(name string) string { return label("count("+of(name+`!="",container=""`)+")", name) }
	return fmt.Sprintf("topk(5, %s or (%s or %s) unless on () count(%s) or %s or %s)",
		label("count("+of(otherNames[0]+`!=""`)+")", otherNames[0]), old(otherNames[1]), old(otherNames[2]), cpu+"{"+s.selector(q)+"}",
		label(fmt.Sprintf("count(count by (instance) (%s) unless on (instance) count by (instance) (%s))", pods, named), "container"),
		label(fmt.Sprintf("absent(%s{%s}) and on () count(%s)", oomEvents, selector, named), oomEvents))
}

func missingWarning(found []finding) string {
	var all []string
	has := func(name string) int {
		return slices.IndexFunc(found, func(f finding) bool { return f.of.Container == name })
	}
	for i, name := range otherNames {
		fix := "rename the label to container, or scrape /metrics/cadvisor of the kubelets"
		if i == 0 {
			fix = "set honorLabels: true where the kubelets are scraped"
		}
		if has(name) >= 0 {
			all = append(all, fmt.Sprintf("it has series with the names of containers in the label %s, which attune does not use: %s", name, fix))
		}
	}
	if i := has("container"); i >= 0 && len(all) == 0 {
		all = append(all, fmt.Sprintf("%.0f of its scrape targets report usage of pods, but of no containers, because the container runtime or a relabeling "+
			"rule drops the label container: keep the label, or scrape /metrics/resource of the kubelets", found[i].value))
	}
	if has(oomEvents) >= 0 {
		all = append(all, "it has no samples of "+oomEvents+", so attune cannot check resized pods for OOM kills of child processes: keep the "+
			"samples of /metrics/cadvisor in the scrape configuration")
	}
	return strings.Join(all, "; ")
}
