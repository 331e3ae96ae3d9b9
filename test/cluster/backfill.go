package cluster

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"attune.io/attune/test/cluster/internal/spec"
)

// Series is the past of one container, as Prometheus would have measured it.
type Series struct {
	Namespace, Pod, Container string
	// Node is the name of the node it was on. Default "node1".
	Node string
	// From and To are its first and last moment. Defaults: 7 days before To, and
	// the last full Step before now, so that what is measured live comes after it.
	From, To time.Time
	// Step is the time between samples. Default one minute.
	Step time.Duration

	// CPU is the usage in cores and Memory the working set in bytes at a time;
	// nil leaves the metric out.
	CPU, Memory func(time.Time) float64
	// Throttled is the share, 0 to 1, of the CFS periods throttled at a time.
	Throttled func(time.Time) float64
}

// Values turns samples taken every step from start on into the function that
// Series wants: each value holds until the next, the first also before and the
// last also after.
func Values(start time.Time, step time.Duration, values []float64) func(time.Time) float64 {
	return func(t time.Time) float64 {
		if len(values) == 0 {
			return 0
		}
		i := int(t.Sub(start) / step)
		return values[max(0, min(i, len(values)-1))]
	}
}

func (s Series) withDefaults(now time.Time) Series {
	if s.Node == "" {
		s.Node = spec.NodeName(1)
	}
	if s.Step == 0 {
		s.Step = time.Minute
	}
	if s.To.IsZero() {
		s.To = now.Truncate(s.Step)
	}
	if s.From.IsZero() {
		s.From = s.To.Add(-7 * 24 * time.Hour)
	}
	return s
}

// metric is one of cAdvisor's, computed from a Series.
type metric struct {
	name    string // without the _total of a counter
	counter bool
	// value, of a counter its growth per second; nil if the series lacks it.
	value func(Series) func(time.Time) float64
}

// periodsPerSecond is how often the kernel grants CPU to a limited container.
const periodsPerSecond = 10

var backfilled = []metric{
	{"container_cpu_usage_seconds", true, func(s Series) func(time.Time) float64 { return s.CPU }},
	{"container_memory_working_set_bytes", false, func(s Series) func(time.Time) float64 { return s.Memory }},
	{"container_cpu_cfs_periods", true, func(s Series) func(time.Time) float64 {
		if s.Throttled == nil {
			return nil
		}
		return func(time.Time) float64 { return periodsPerSecond }
	}},
	{"container_cpu_cfs_throttled_periods", true, func(s Series) func(time.Time) float64 {
		if s.Throttled == nil {
			return nil
		}
		return func(t time.Time) float64 { return periodsPerSecond * s.Throttled(t) }
	}},
}

// writeOpenMetrics writes all samples of one metric after another, as the format demands.
func writeOpenMetrics(w io.Writer, all []Series) error {
	out := bufio.NewWriter(w)
	now := time.Now()
	for _, m := range backfilled {
		kind := "gauge"
		if m.counter {
			kind = "counter"
		}
		fmt.Fprintf(out, "# TYPE %s %s\n", m.name, kind)
		for _, s := range all {
			m.write(out, s.withDefaults(now))
		}
	}
	fmt.Fprintln(out, "# EOF")
	return out.Flush() // also reports what went wrong before
}

func (m metric) write(out io.Writer, s Series) {
	value := m.value(s)
	if value == nil {
		return
	}
	name := m.name
	if m.counter {
		name += "_total"
	}
	sum := 0.0
	for t := s.From; !t.After(s.To); t = t.Add(s.Step) {
		v := value(t)
		if m.counter {
			sum += v * s.Step.Seconds()
			v = sum
		}
		fmt.Fprintf(out, "%s{%s} %g %d\n", name, s.labels(), v, t.Unix())
	}
}

// labels are those of a live series, so that queries and rates run on from the past.
func (s Series) labels() string {
	var node int
	_, _ = fmt.Sscanf(s.Node, "node%d", &node)
	pairs := []string{
		"container", s.Container, "namespace", s.Namespace, "pod", s.Pod,
		"id", "/backfill/" + s.Namespace + "/" + s.Pod + "/" + s.Container,
		"name", "backfill", "image", WorkloadImage,
		"job", "cadvisor", "instance", spec.NodeIP(node) + ":10250", "node", s.Node,
	}
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%q", pairs[i], pairs[i+1])
	}
	return b.String()
}
