package prometheus

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"attune.io/attune/usage"
)

// Scope narrows every selector of the expressions in this package, such as to one of several clusters of a server. It
// has matchers, each after a comma. The zero value matches everything.
type Scope string

// Everything matches all series of a source.
const Everything Scope = ""

// ScopeOf returns the Scope of the series that have all these labels. The order is fixed, so that equal labels make
// equal expressions, which a server may have cached.
func ScopeOf(wanted map[string]string) Scope {
	var scope strings.Builder
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		scope.WriteString("," + name + "=" + strconv.Quote(wanted[name]))
	}
	return Scope(scope.String())
}

// peakValue is the value of PeakLabel in series with peaks.
const peakValue = "true"

// CPU is the PromQL expression of the containers' CPU usage in cores, one series per container of a pod.
//
// A counter's rate over the window ends at the step's end. So a window as long as the step covers everything, and its
// rates are their own peaks. A shorter window covers only the end of each step. Then the expression also has the
// highest rate within the step, in separate series (see usage.Series). The resolution of the subquery is the rate
// window, not shorter: each raw sample is read once, and together the windows cover the step.
//
// A restarted container has two series for a while, which differ in the labels id and image: the highest one counts.
func (s Scope) CPU(q usage.Query) string {
	rate := fmt.Sprintf("rate(container_cpu_usage_seconds_total{%s}[%s])", s.selector(q), span(q.RateWindow))
	usual := highest(rate)
	// The strategy Node counts waiting as need. It needs no peaks, because its steps are short.
	if q.Waited {
		return s.waited(usual, q)
	}
	if q.RateWindow >= q.Step {
		return usual
	}
	peak := highest(fmt.Sprintf("max_over_time(%s[%s:%s])", rate, span(q.Step), span(q.RateWindow)))
	return fmt.Sprintf("%s or label_replace(%s,%q,%q,%q,%q)", usual, peak, PeakLabel, peakValue, "", "")
}

// waited adds the time that a container's tasks waited for CPU to its usage, at most doubling it. A container without a
// measured waiting time counts with its usage alone.
func (s Scope) waited(usual string, q usage.Query) string {
	waiting := highest(fmt.Sprintf("rate(container_pressure_cpu_waiting_seconds_total{%s}[%s])", s.selector(q), span(q.RateWindow)))
	return fmt.Sprintf("%s * (1 + clamp_max(%s, 1)) or %s", usual, waiting, usual)
}

// Memory is the PromQL expression of the containers' highest working set of each step in bytes, one series per
// container of a pod.
func (s Scope) Memory(q usage.Query) string {
	return highest(fmt.Sprintf("max_over_time(container_memory_working_set_bytes{%s}[%s])", s.selector(q), span(q.Step)))
}

// highest keeps the highest series of each container. A restarted container, or one that two servers scrape, has
// several.
func highest(expression string) string {
	return "max by (namespace,pod,container) (" + expression + ")"
}

// selector excludes the pods' own cgroups and their sandboxes, which have no container name or, in older runtimes, the
// name POD. If the names are too many for one expression, it omits them: the answer then has more than requested, and
// Query.Asked selects the requested part.
func (s Scope) selector(q usage.Query) string {
	matchers := `container!="",container!="POD"`
	namespaces := "namespace" + oneOf(q.Namespaces)
	if len(namespaces) > mostNames {
		namespaces = `namespace!=""`
	}
	matchers += "," + namespaces
	if len(q.PodPrefixes) > 0 {
		if pods := strconv.Quote("(?:" + alternatives(q.PodPrefixes) + ").*"); len(namespaces)+len(pods) <= mostNames {
			matchers += ",pod=~" + pods
		}
	}
	return matchers + string(s)
}

// oneOf matches one value exactly, or the alternatives of several: servers find one value faster.
func oneOf(values []string) string {
	if len(values) == 1 {
		return "=" + strconv.Quote(values[0])
	}
	return "=~" + strconv.Quote(alternatives(values))
}

// alternatives are sorted, so that equal expressions hit a server's query cache.
func alternatives(values []string) string {
	escaped := make([]string, len(values))
	for i, value := range values {
		escaped[i] = regexp.QuoteMeta(value)
	}
	slices.Sort(escaped)
	return strings.Join(slices.Compact(escaped), "|")
}

// span formats a duration for PromQL, which has no fractions.
func span(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}

const (
	// clusterLabel distinguishes the clusters of one server, by the convention of Thanos, Mimir and their charts.
	clusterLabel = "cluster"
	// clustersEvery is how often a server is checked for several clusters.
	clustersEvery = time.Hour
)

// clusters detects that a server has pods with the same name in several clusters. Their usage then counts as the usage
// of one pod, and the highest value counts. Every answer has a warning until this ends. mutex guards asked and warning.
type clusters struct {
	// told is true if the operator or the policy names the cluster. Then the server is not checked.
	told  bool
	mutex sync.Mutex
	// asked is when the server was last checked, by the end of the query.
	asked   time.Time
	warning string
}

// SeveralClusters is the PromQL expression of one container with series from more than one cluster; its value is their
// number.
func (s Scope) SeveralClusters(q usage.Query) string {
	each := fmt.Sprintf("count by (namespace,pod,container,%s) (container_memory_working_set_bytes{%s,%s!=\"\"})", clusterLabel, s.selector(q), clusterLabel)
	return fmt.Sprintf("topk(1, count by (namespace,pod,container) (%s) > 1)", each)
}

// warn adds a warning to the report if the server has several clusters. It checks the server once in clustersEvery. A
// failure of that query is not reported, because the caller has its answer.
func (c *clusters) warn(ctx context.Context, client *Client, query usage.Query, report *usage.Report) {
	if c.told || len(query.Namespaces) == 0 {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if query.End.Sub(c.asked) >= clustersEvery || query.End.Before(c.asked.Add(-clustersEvery)) {
		c.asked = query.End
		c.ask(ctx, client, query)
	}
	if c.warning != "" {
		report.Warn(c.warning)
	}
}

// ask queries the server for a pod in several clusters, and stores the warning; empty if there is no such pod. After a
// failure the previous warning stays. The caller holds mutex.
func (c *clusters) ask(ctx context.Context, client *Client, query usage.Query) {
	asked := query.Asked()
	var found string
	_, err := client.Range(ctx, client.scope.SeveralClusters(query), once(query.End), func(e Element) {
		if of := e.Labels; found == "" && len(e.Samples) > 0 && asked.Namespace(of.Namespace) {
			found = fmt.Sprintf("it has the pod %s/%s in %.0f clusters (label %s), and attune counts their usage as one pod: set metricsSource.labels or "+
				"usage.prometheus.matchers, e.g. {%s: eu-1}", of.Namespace, of.Pod, e.Samples[0].Value, clusterLabel, clusterLabel)
		}
	})
	if err == nil {
		c.warning = found
	}
}
