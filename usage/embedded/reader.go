package embedded

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"k8s.io/apimachinery/pkg/util/sets"

	"attune.io/attune/usage"
)

// reader turns one kubelet answer into samples. It belongs to one scrape.
type reader struct {
	scraper *scraper
	target  *target
	// node is the name of the scraped node.
	node string
	// pods are the pods whose cAdvisor metrics are kept (see extras); nil while /metrics/resource is read.
	pods map[Pod]bool
	// now is when the scrape began, in Unix milliseconds.
	now int64
	// batch has the samples so far, in memory that scrapes reuse. dropped counts the others by reason.
	batch   []scraped
	dropped map[usage.Drop]int
	// off is the difference between the time of the last rejected sample and the operator's clock, in milliseconds; 0:
	// no sample was rejected.
	off int64
	// nodeOf returns the node of a pod, according to the API server; empty: it has none.
	nodeOf func(Pod) (string, error)
	// high has the samples of containers that use at least half of their memory limit. limitsOf returns a pod's limits.
	high     []high
	limitsOf func(Pod) (map[string]float64, error)
	limited  last[map[string]float64]
	placed   last[string]
}

// last caches the result for the last pod: a kubelet reports the series of a pod one after another.
type last[T any] struct {
	pod   Pod
	found T
	err   error
}

func (l *last[T]) about(pod Pod, look func(Pod) (T, error)) (T, error) {
	if l.pod != pod {
		l.pod = pod
		l.found, l.err = look(pod)
	}
	return l.found, l.err
}

// take adds a point to the batch, or counts it as dropped. Checks without a lookup come first. A sample without a time
// was measured when the kubelet answered.
func (r *reader) take(p point) {
	if r.pods != nil && !r.wants(p.text) {
		return
	}
	if drop := usage.DropOf(p.value); drop != "" {
		r.dropped[drop]++
		return
	}
	p.at = cmp.Or(p.at, r.now)
	if off := p.at - r.now; off > future.Milliseconds() || off < -past.Milliseconds() {
		r.off = off
		r.dropped[usage.DropClock]++
		return
	}
	k := r.known(p)
	if k.drop != "" {
		r.dropped[k.drop]++
		return
	}
	r.batch = append(r.batch, scraped{k.series, promql.FPoint{T: p.at, F: p.value}})
	if r.limit(k); k.limit > 0 && p.value >= k.limit/2 {
		r.high = append(r.high, high{k.pod, k.series, k.limit})
	}
}

// wants reports whether a cAdvisor series is wanted: it belongs to a pod in pods, or is the node's pressure.
func (r *reader) wants(text []byte) bool {
	all, known := r.pods[Pod{string(labelOf(text, "namespace")), string(labelOf(text, "pod"))}]
	switch {
	case known:
		return all || string(nameOf(text)) == waited
	case r.scraper.NodePressure:
		return string(nameOf(text)) == waited && string(labelOf(text, "id")) == "/"
	}
	return false
}

// clock returns an error if all samples of a node have impossible times, so that its clock must be wrong. A few such
// samples are normal: they belong to deleted containers.
func (r *reader) clock(path string) error {
	if len(r.batch) > 0 || r.off == 0 || r.pods != nil {
		return nil
	}
	return fmt.Errorf("%s: its samples are %s off the operator's clock, more than %s", path, time.Duration(r.off)*time.Millisecond, past)
}

// known returns the entry of a series' text. A known text costs one lookup and no parsing. A new one is parsed and
// checked, unless the node would have more than maxSeries or maxSeriesBytes.
func (r *reader) known(p point) *known {
	k := r.target.known[string(p.text)]
	switch {
	case k == nil && (len(r.target.known) >= maxSeries || r.target.bytes+len(p.text) > maxSeriesBytes):
		return &known{drop: usage.DropFull}
	case k == nil:
		k = r.learn(p)
		r.target.known[string(p.text)] = k
		r.target.bytes += len(p.text)
	case k.unsure(r.target.round):
		r.check(k)
	}
	k.round = r.target.round
	return k
}

// learn parses a series. Its label node is always the scraped node, whatever the kubelet reports. If two nodes report
// one pod, there are two series, and the highest value counts.
func (r *reader) learn(p point) *known {
	var of labels.Labels
	p.labels(&of)
	if _, twice := of.HasDuplicateLabelNames(); twice {
		return &known{drop: usage.DropLabels}
	}
	k := &known{labels: labels.NewBuilder(of).Set("node", r.node).Labels()}
	r.check(k)
	return k
}

// check decides whether the kubelet may report a series: it must belong to the node itself, or to a pod that the API
// server places on the node. Without this check, one broken or hostile node could set the usage of every pod of the
// cluster. If the pod's node cannot be looked up, the last decision stays; a new series is dropped.
func (r *reader) check(k *known) {
	k.checked = r.target.round
	pod := Pod{k.labels.Get("namespace"), k.labels.Get("pod")}
	if pod != (Pod{}) || k.labels.Get("container") != "" {
		node, err := r.placed.about(pod, r.nodeOf)
		if err == nil && node != r.node || err != nil && k.series == nil {
			k.drop = usage.DropElsewhere
			return
		}
	}
	k.drop = ""
	told := false
	k.pod, told = podOf(k.labels)
	k.held = told && k.labels.Get(labels.MetricName) == workingSet
	if k.series == nil {
		k.series = r.scraper.recent.intern(k.labels)
		k.labels = k.series.labels
	}
}

var (
	// resourceMetrics are the metrics kept of /metrics/resource. All others are dropped during parsing.
	resourceMetrics = sets.New(
		"container_cpu_usage_seconds_total", workingSet, "node_cpu_usage_seconds_total", "node_memory_working_set_bytes",
	)
	// cadvisorMetrics are the metrics kept of /metrics/cadvisor: /metrics/resource does not have them.
	cadvisorMetrics = sets.New(
		"container_cpu_cfs_periods_total", "container_cpu_cfs_throttled_periods_total", "container_oom_events_total",
		"container_memory_usage_bytes", waited, stalled,
	)
)

// waited is cAdvisor's counter of the time that a task of a cgroup waited for CPU (PSI).
const waited = "container_pressure_cpu_waiting_seconds_total"

// point is one sample of an exposition. text and labels refer to the parser's memory, so they are valid only during the
// call that receives the point.
type point struct {
	// text is the series as written: a name and labels.
	text []byte
	// at is the time of the measurement.
	at int64 // Unix milliseconds; 0: not in the exposition
	// value is in the unit of the metric: seconds or bytes.
	value float64
	// labels reads the text.
	labels func(*labels.Labels)
}

// year1 ends a line with the zero time of Go. Kubelets report it for containers that start or stop.
var year1 = []byte(" -62135596800000\n")

// parse reads the text format of Prometheus and calls take for each sample of a wanted metric. An error means that the
// rest could not be read; the samples before it were taken.
func parse(body []byte, wanted sets.Set[string], take func(point)) error {
	if bytes.Contains(body, year1) { // the parser rejects a negative time, and with it all samples of the node
		body = bytes.ReplaceAll(body, year1, []byte(" 1\n"))
	}
	parser := textparse.NewPromParser(body, labels.NewSymbolTable(), false)
	// Once, because a method value allocates.
	read := parser.Labels
	for {
		entry, err := parser.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("not the text format of Prometheus: %w", err)
		case entry != textparse.EntrySeries:
			continue
		}
		text, at, value := parser.Series()
		if _, kept := wanted[string(nameOf(text))]; !kept {
			continue
		}
		p := point{text: text, value: value, labels: read}
		if at != nil {
			p.at = *at
		}
		take(p)
	}
}

// nameOf returns the metric name of a series' text: everything before the brace.
func nameOf(text []byte) []byte {
	name, _, _ := bytes.Cut(text, []byte{'{'})
	return name
}

// labelOf returns the value of a label in a series' text, or nil. It does not unescape, because names of Kubernetes
// objects need no escapes. It is used before the labels are parsed, because most cAdvisor series are not wanted.
func labelOf(text []byte, name string) []byte {
	for rest := text; ; {
		i := bytes.Index(rest, []byte(name))
		if i < 0 {
			return nil
		}
		before, after := rest[:i], rest[i+len(name):]
		if value, ok := bytes.CutPrefix(after, []byte(`="`)); ok && i > 0 && (before[i-1] == ',' || before[i-1] == '{') {
			value, _, _ = bytes.Cut(value, []byte{'"'})
			return value
		}
		rest = after
	}
}
