package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// resourceMetrics returns whether a metric of /metrics/resource is kept. All others are dropped while they are
// parsed.
func resourceMetrics(name []byte) bool {
	switch string(name) {
	case "container_cpu_usage_seconds_total", "container_memory_working_set_bytes",
		"node_cpu_usage_seconds_total", "node_memory_working_set_bytes":
		return true
	}
	return false
}

// cadvisorMetrics returns whether a metric of /metrics/cadvisor is kept: those that /metrics/resource does not
// have.
func cadvisorMetrics(name []byte) bool {
	switch string(name) {
	case "container_cpu_cfs_periods_total", "container_cpu_cfs_throttled_periods_total",
		"container_oom_events_total", "container_memory_usage_bytes",
		waited, "container_pressure_memory_waiting_seconds_total":
		return true
	}
	return false
}

// waited is cAdvisor's counter of the time that a task of a cgroup waited for CPU (PSI).
const waited = "container_pressure_cpu_waiting_seconds_total"

// ofNode returns whether a series is the CPU pressure of a node's root cgroup.
func ofNode(text []byte) bool {
	return string(nameOf(text)) == waited && string(labelOf(text, "id")) == "/"
}

// point is one sample of an exposition. text and labels refer to the parser's memory, so they are valid only
// during the call that receives the point.
type point struct {
	// text is the series as it is written: a name and labels.
	text []byte
	// at is the time of the measurement.
	at int64 // Unix milliseconds; 0: the exposition does not say
	// value is in the unit of the metric: seconds or bytes.
	value float64
	// labels reads the text.
	labels func(*labels.Labels)
}

// parse reads the text format of Prometheus and calls take for each sample of a wanted metric. An error means that
// the rest could not be read; the samples before it were taken.
func parse(body []byte, wanted func(name []byte) bool, take func(point)) error {
	parser := textparse.NewPromParser(body, labels.NewSymbolTable(), false)
	// Once: a method value is made on the heap.
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
		if !wanted(nameOf(text)) {
			continue
		}
		p := point{text: text, value: value, labels: read}
		if at != nil {
			p.at = *at
		}
		take(p)
	}
}

// nameOf returns the name of the metric in a series' text: everything before the brace.
func nameOf(text []byte) []byte {
	name, _, _ := bytes.Cut(text, []byte{'{'})
	return name
}

// labelOf returns the value of a label in a series' text, or nil. It does not unescape: names of Kubernetes
// objects need no escapes. It is used before the labels are parsed, because most series of cAdvisor are not
// wanted.
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
