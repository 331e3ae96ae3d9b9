package prometheus

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"attune.io/attune/usage"
)

// mostNames bounds the bytes of names in one expression: servers limit its length (VictoriaMetrics: 16 KiB), and some
// expressions contain the names three times.
const mostNames = 4 << 10

// Throttled is the PromQL expression of the fraction, 0 to 1, of the CFS periods in the window in which each container
// of some pods was throttled. A container without a CPU limit has no periods, and no answer.
func (s Scope) Throttled(namespace string, pods []string, window time.Duration) string {
	of := s.some(namespace, pods)
	return perContainer(fmt.Sprintf("increase(container_cpu_cfs_throttled_periods_total{%s}[%s]) / increase(container_cpu_cfs_periods_total{%s}[%s])",
		of, span(window), of, span(window)))
}

// Waiting is the PromQL expression of the fraction of time, 0 to 1, in which some of the tasks of each container of
// some pods waited for CPU over the window (PSI).
func (s Scope) Waiting(namespace string, pods []string, window time.Duration) string {
	return perContainer(fmt.Sprintf("rate(container_pressure_cpu_waiting_seconds_total{%s}[%s])", s.some(namespace, pods), span(window)))
}

// Held is the PromQL expression of the peak memory, in bytes, of each container's cgroup of some pods over the window,
// including page cache. The kubelet compares this memory with a lower memory limit.
func (s Scope) Held(namespace string, pods []string, window time.Duration) string {
	return perContainer(fmt.Sprintf("max_over_time(container_memory_usage_bytes{%s}[%s])", s.some(namespace, pods), span(window)))
}

// Killed is the PromQL expression of how many processes of each container of some pods the kernel OOM-killed within the
// window. It counts from the last sample before the window, so that no kill between two scrapes is missed. A container
// that started within the window counts from 0.
func (s Scope) Killed(namespace string, pods []string, window time.Duration) string {
	events := fmt.Sprintf("container_oom_events_total{%s}", s.some(namespace, pods))
	return perContainer(fmt.Sprintf("%s - (%s offset %s or %s * 0)", events, events, span(window), events))
}

// Seen is the PromQL expression of how many processes of each container of some pods the kernel killed between the
// first and the last sample of the window.
func (s Scope) Seen(namespace string, pods []string, window time.Duration) string {
	events := fmt.Sprintf("container_oom_events_total{%s}[%s]", s.some(namespace, pods), span(window))
	return perContainer(fmt.Sprintf("max_over_time(%s) - min_over_time(%s)", events, events))
}

// perContainer keeps the highest series of each container. The selector fixes the namespace.
func perContainer(expression string) string { return "max by (pod,container) (" + expression + ")" }

// AskPods evaluates one of the expressions above at one time, once for as many pods as fit into one expression. A
// container without measurements is missing in the answer. If a container has two series, the later one wins; the
// expressions leave only one. After an error the answer is nil.
func AskPods(ctx context.Context, pods []string, at time.Time, ask Asker, expression func(pods []string) string) (usage.ByContainer, error) {
	answer := usage.ByContainer{}
	for _, part := range parts(pods) {
		_, err := ask(ctx, expression(part), once(at), func(e Element) {
			if len(e.Samples) == 0 {
				return
			}
			if answer[e.Labels.Pod] == nil {
				answer[e.Labels.Pod] = map[string]float64{}
			}
			answer[e.Labels.Pod][e.Labels.Container] = e.Samples[len(e.Samples)-1].Value
		})
		if err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// AskSince is AskPods for pods with a window each. Pods with equal windows share a part of the expression.
func AskSince(ctx context.Context, windows map[string]time.Duration, at time.Time, ask Asker, expression func(pods []string, window time.Duration) string) (usage.ByContainer, error) {
	pods := slices.SortedFunc(maps.Keys(windows), func(a, b string) int {
		return cmp.Or(cmp.Compare(windows[a], windows[b]), cmp.Compare(a, b))
	})
	return AskPods(ctx, pods, at, ask, func(part []string) string {
		var each []string
		for len(part) > 0 {
			n := 1
			for n < len(part) && windows[part[n]] == windows[part[0]] {
				n++
			}
			each = append(each, expression(part[:n], windows[part[0]]))
			part = part[n:]
		}
		return strings.Join(each, " or ")
	})
}

// once returns a range query of a single moment.
func once(at time.Time) usage.Query { return usage.Query{Start: at, End: at, Step: time.Second} }

// aroundNames is the length of an expression without its names. Each different window needs as much.
const aroundNames = 64

// parts splits names into groups that each fit into an expression. A single name that is too long is a group of its
// own.
func parts(names []string) [][]string {
	var all [][]string
	from, size := 0, 0
	for i, name := range names {
		if size+len(name)+aroundNames > mostNames && i > from {
			all = append(all, names[from:i])
			from, size = i, 0
		}
		size += len(name) + aroundNames
	}
	if from < len(names) {
		all = append(all, names[from:])
	}
	return all
}

// Used is the PromQL expression of the CPU, in cores, that a container used over the window.
func (s Scope) Used(namespace, pod, container string, window time.Duration) string {
	return "max(" + s.rate(fmt.Sprintf("namespace=%q,pod=%q,container=%q%s", namespace, pod, container, s.matchers), window) + ")"
}

// NodeUsage is the PromQL expression of the CPU, in cores, that a node used over the window.
func (s Scope) NodeUsage(node string, window time.Duration) string {
	of := fmt.Sprintf("node=%q%s", node, s.matchers)
	return fmt.Sprintf("max(rate(node_cpu_usage_seconds_total{%s}[%s]) or %s)", of, span(window), s.rate(`id="/",`+of, window))
}

// NodesPressure is the PromQL expression of the fraction of time, 0 to 1, in which some task of each node waited for
// CPU over the window (PSI of its root cgroup).
func (s Scope) NodesPressure(window time.Duration) string {
	return perNode(fmt.Sprintf("rate(container_pressure_cpu_waiting_seconds_total{id=\"/\",node!=\"\"%s}[%s])", s.matchers, span(window)))
}

// NodesLoad is the PromQL expression of each node's load average over a minute, from node-exporter: by the label node,
// or by the node name in its kernel.
func (s Scope) NodesLoad() string {
	named := fmt.Sprintf("label_replace(node_load1{node=\"\"%s} * on (instance) group_left (nodename) max by (instance,nodename) (node_uname_info{nodename!=\"\"%s}) ^ 0, \"node\", \"$1\", \"nodename\", \"(.+)\")", s.matchers, s.matchers)
	return perNode(fmt.Sprintf("node_load1{node!=\"\"%s}", s.matchers)) + " or " + perNode(named)
}

// NodesUsage is the PromQL expression of the CPU, in cores, that each node used over the window.
func (s Scope) NodesUsage(window time.Duration) string {
	of := `node!=""` + s.matchers
	return perNode(fmt.Sprintf("rate(node_cpu_usage_seconds_total{%s}[%s]) or %s", of, span(window), s.rate(`id="/",`+of, window)))
}

// perNode keeps the highest series of each node.
func perNode(expression string) string { return "max by (node) (" + expression + ")" }

// AskNodes evaluates an expression about all nodes at one time, and returns the values by node name.
func AskNodes(ctx context.Context, expression string, at time.Time, ask Asker) (map[string]float64, error) {
	answer := map[string]float64{}
	_, err := ask(ctx, expression, once(at), func(e Element) {
		if e.Labels.Node != "" && len(e.Samples) > 0 {
			answer[e.Labels.Node] = e.Samples[len(e.Samples)-1].Value
		}
	})
	return answer, err
}

// some returns the matchers of the containers of some pods, without the pods' own cgroups and their sandboxes.
func (s Scope) some(namespace string, pods []string) string {
	return "namespace=" + strconv.Quote(namespace) + ",pod" + oneOf(pods) + `,container!="",container!="POD"` + s.matchers
}

// NodeAsker evaluates an expression about all nodes at one time, and returns the values by node name.
type NodeAsker func(ctx context.Context, expression string, at time.Time) (map[string]float64, error)

// Loads queries a source about the CPU of all nodes, for the load taint (docs/node-strategy.md). The zero value is not
// usable.
type Loads struct {
	ask    NodeAsker
	scope  Scope
	window time.Duration
}

// NewLoads returns Loads for a source with one sample per interval. The window of its rates is two intervals and 30
// seconds, at least a minute, because a rate needs two samples.
func NewLoads(ask NodeAsker, scope Scope, interval time.Duration) Loads {
	return Loads{ask, scope, max(time.Minute, 2*interval+30*time.Second)}
}

// Pressure returns the fraction of time, 0 to 1, in which some task of each node waited for CPU (see
// Scope.NodesPressure).
func (l Loads) Pressure(ctx context.Context, at time.Time) (map[string]float64, error) {
	return l.ask(ctx, l.scope.NodesPressure(l.window), at)
}

// Load1 returns each node's load average over a minute, a number of tasks (see Scope.NodesLoad).
func (l Loads) Load1(ctx context.Context, at time.Time) (map[string]float64, error) {
	return l.ask(ctx, l.scope.NodesLoad(), at)
}

// Usage returns the CPU that each node used, in cores (see Scope.NodesUsage).
func (l Loads) Usage(ctx context.Context, at time.Time) (map[string]float64, error) {
	return l.ask(ctx, l.scope.NodesUsage(l.window), at)
}
