package prometheus

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"attune.io/attune/usage"
)

// Scope narrows every selector of the expressions in this package, such as to one of several clusters of a server.
type Scope struct {
	// matchers are label matchers, each after a comma.
	matchers string
	// perCPU: a container may have a series per CPU. Kubelets have only totals.
	perCPU bool
}

// Everything matches all series of a source whose CPU series are totals, such as a kubelet's.
var Everything = Scope{}

// ScopeOf returns the Scope of those series of a server that have all these labels. The order is fixed, so that equal
// labels make equal expressions, which a server may have cached.
func ScopeOf(wanted map[string]string) Scope {
	var matchers strings.Builder
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		matchers.WriteString("," + name + "=" + strconv.Quote(wanted[name]))
	}
	return Scope{matchers: matchers.String(), perCPU: true}
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
	rate := s.rate(s.selector(q), q.RateWindow)
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

// rate is the CPU usage of each cgroup in cores. Series per CPU are added up before duplicates are removed: a restarted
// container and a second scraper have series of their own. A total takes precedence over them.
func (s Scope) rate(selector string, window time.Duration) string {
	of := func(cpu string) string {
		return fmt.Sprintf("rate(container_cpu_usage_seconds_total{%s%s}[%s])", selector, cpu, span(window))
	}
	if !s.perCPU {
		return of("")
	}
	return fmt.Sprintf("(max without (cpu) (%s) or sum without (cpu) (%s))", of(`,cpu=~"total|"`), of(`,cpu!~"total|"`))
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

// mostSelected bounds the bytes of names in one selector of an expression that has up to five of them (see mostNames).
const mostSelected = 2_900

// namesOnly matches series of containers with a name.
const namesOnly = `container!="",container!="POD"`

// selector excludes the pods' own cgroups and their sandboxes, which have no container name or, in older runtimes, the
// name POD. If the names are too many for one expression, it omits them: the answer then has more than requested, and
// Query.Asked selects the requested part.
func (s Scope) selector(q usage.Query) string {
	matchers := namesOnly
	namespaces := "namespace" + oneOf(q.Namespaces)
	if len(namespaces) > mostSelected {
		namespaces = `namespace!=""`
	}
	matchers += "," + namespaces
	if len(q.PodPrefixes) > 0 {
		if pods := strconv.Quote("(?:" + alternatives(q.PodPrefixes) + ").*"); len(namespaces)+len(pods) <= mostSelected {
			matchers += ",pod=~" + pods
		}
	}
	return matchers + s.matchers
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
