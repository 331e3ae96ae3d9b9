package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// resourceMetrics says what is kept of /metrics/resource. Everything else is dropped while it is parsed.
func resourceMetrics(name []byte) bool {
	switch string(name) {
	case "container_cpu_usage_seconds_total", "container_memory_working_set_bytes",
		"node_cpu_usage_seconds_total", "node_memory_working_set_bytes":
		return true
	}
	return false
}

// cadvisorMetrics says what is kept of /metrics/cadvisor: what only that has.
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

// ofNode: the series is that of a node's root cgroup.
func ofNode(text []byte) bool {
	return string(nameOf(text)) == waited && string(labelOf(text, "id")) == "/"
}

// point is one sample of an exposition. Its text and labels are only valid during a call.
type point struct {
	// text is the series as it is written: a name and labels.
	text  []byte
	at    int64 // Unix milliseconds; 0: the exposition does not say
	value float64
	// labels reads the text.
	labels func(*labels.Labels)
}

// parse reads the text format and calls take for each sample of a wanted metric. An error says that the
// rest could not be read.
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

// nameOf is the metric's name.
func nameOf(text []byte) []byte {
	name, _, _ := bytes.Cut(text, []byte{'{'})
	return name
}

// labelOf is the value of a label, or nil. It does not unescape: names in Kubernetes need no escapes.
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
