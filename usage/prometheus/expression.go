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

// Scope narrows every selector of the expressions in this package, such as to one of several clusters that a server
// knows: matchers, each after a comma. The zero value is everything.
type Scope string

// Everything that a source knows.
const Everything Scope = ""

// ScopeOf returns the Scope of the series that have all these labels. The order is fixed, so that equal labels
// make equal expressions, which a server may have cached.
func ScopeOf(wanted map[string]string) Scope {
	var scope strings.Builder
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		scope.WriteString("," + name + "=" + strconv.Quote(wanted[name]))
	}
	return Scope(scope.String())
}

// peakValue is the value of PeakLabel of series that hold peaks.
const peakValue = "true"

// CPU is the PromQL expression of the containers' CPU usage in cores, one series a container of a pod.
//
// A counter's rate over the window ends at the step's end, so a window as long as the step leaves nothing
// out and its rates are their own peaks. A shorter window sees the end of each step only: then the highest
// rate within the step is asked for as well, in series of their own (see usage.Series). The subquery's
// steps are the rate window, not shorter: each raw sample is read once, and together they cover the step.
//
// A container that was restarted has two series for a while, told apart by the labels id and image: the
// highest one counts.
func (s Scope) CPU(q usage.Query) string {
	rate := fmt.Sprintf("rate(container_cpu_usage_seconds_total{%s}[%s])", s.selector(q), span(q.RateWindow))
	usual := highest(rate)
	// The strategy Node counts waiting as need. It asks for no peaks: its steps are short.
	if q.Waited {
		return s.waited(usual, q)
	}
	if q.RateWindow >= q.Step {
		return usual
	}
	peak := highest(fmt.Sprintf("max_over_time(%s[%s:%s])", rate, span(q.Step), span(q.RateWindow)))
	return fmt.Sprintf("%s or label_replace(%s,%q,%q,%q,%q)", usual, peak, PeakLabel, peakValue, "", "")
}

// waited adds the time that a container's tasks waited for CPU to its usage, at most as much again. A container
// whose waiting is not measured counts with its usage alone.
func (s Scope) waited(usual string, q usage.Query) string {
	waiting := highest(fmt.Sprintf("rate(container_pressure_cpu_waiting_seconds_total{%s}[%s])", s.selector(q), span(q.RateWindow)))
	return fmt.Sprintf("%s * (1 + clamp_max(%s, 1)) or %s", usual, waiting, usual)
}

// Memory is the PromQL expression of the containers' highest working set of each step in bytes, one series
// a container of a pod.
func (s Scope) Memory(q usage.Query) string {
	return highest(fmt.Sprintf("max_over_time(container_memory_working_set_bytes{%s}[%s])", s.selector(q), span(q.Step)))
}

// highest keeps the highest series of each container. A restarted container, or one that two servers scrape, has
// several.
func highest(expression string) string {
	return "max by (namespace,pod,container) (" + expression + ")"
}

// selector leaves out the pods' own cgroups and their sandboxes, which have no container name or, in older
// runtimes, the name POD. Names that are too many for one expression are left out: the answer holds more than was asked
// for, and Query.Asks tells what.
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

// oneOf compares with one value, or with the alternatives of several: servers find one value faster.
func oneOf(values []string) string {
	if len(values) == 1 {
		return "=" + strconv.Quote(values[0])
	}
	return "=~" + strconv.Quote(alternatives(values))
}

// alternatives are sorted, so that a server's query cache knows the expression again.
func alternatives(values []string) string {
	escaped := make([]string, len(values))
	for i, value := range values {
		escaped[i] = regexp.QuoteMeta(value)
	}
	slices.Sort(escaped)
	return strings.Join(slices.Compact(escaped), "|")
}

// span is a duration in PromQL, which knows no fractions.
func span(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}

const (
	// clusterLabel tells the clusters apart that one server knows, by the convention of Thanos, Mimir and their charts.
	clusterLabel = "cluster"
	// clustersEvery is how often a server is asked whether it knows several.
	clustersEvery = time.Hour
)

// clusters detects that a server knows pods of one name in several clusters. Their usage is taken for one pod's
// then, and the highest counts. Every answer has a warning until it is so no more. mutex guards asked and warning.
type clusters struct {
	// told is true where the operator or the policy names the cluster that is meant. Then nothing is asked.
	told  bool
	mutex sync.Mutex
	// asked is when the server was asked last, by the end of the query.
	asked   time.Time
	warning string
}

// SeveralClusters is the PromQL expression of a container whose series come from more than one cluster, with how many
// they are.
func (s Scope) SeveralClusters(q usage.Query) string {
	each := fmt.Sprintf("count by (namespace,pod,container,%s) (container_memory_working_set_bytes{%s,%s!=\"\"})", clusterLabel, s.selector(q), clusterLabel)
	return fmt.Sprintf("topk(1, count by (namespace,pod,container) (%s) > 1)", each)
}

// warn adds a warning to the report where the server knows several clusters. It asks the server once in
// clustersEvery. A failure of that query is not reported, since the answer that the caller asked for is there.
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

// ask asks the server for a pod that is in several clusters, and keeps the warning; empty where there is none. After a
// failure it keeps the warning before. The caller holds mutex.
func (c *clusters) ask(ctx context.Context, client *Client, query usage.Query) {
	asked := query.Asked()
	var found string
	_, err := client.Range(ctx, client.scope.SeveralClusters(query), once(query.End), func(e Element) {
		if of := e.Labels; found == "" && len(e.Samples) > 0 && asked.Namespace(of.Namespace) {
			found = fmt.Sprintf("it knows the pod %s/%s in %.0f clusters (label %s), and their usage counts as one pod's: set metricsSource.labels or "+
				"usage.prometheus.matchers, e.g. {%s: eu-1}", of.Namespace, of.Pod, e.Samples[0].Value, clusterLabel, clusterLabel)
		}
	})
	if err == nil {
		c.warning = found
	}
}
