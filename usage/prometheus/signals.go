package prometheus

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"attune.io/attune/usage"
)

// Throttled is the PromQL expression of the fraction, 0 to 1, of its CFS periods in which a container was
// throttled over the window. A container without a CPU limit has no periods, and no answer.
func Throttled(namespace, pod, container string, window time.Duration) string {
	of := one(namespace, pod, container)
	return fmt.Sprintf("max(increase(container_cpu_cfs_throttled_periods_total{%s}[%s]) / increase(container_cpu_cfs_periods_total{%s}[%s]))",
		of, span(window), of, span(window))
}

// Waiting is the PromQL expression of the fraction of time, 0 to 1, in which some of a container's tasks
// waited for CPU over the window (PSI).
func Waiting(namespace, pod, container string, window time.Duration) string {
	return fmt.Sprintf("max(rate(container_pressure_cpu_waiting_seconds_total{%s}[%s]))", one(namespace, pod, container), span(window))
}

// Held is the PromQL expression of the most memory, in bytes, that each container's cgroup of some pods held over the
// window, page cache included: what a kubelet compares a lower memory limit with.
func Held(namespace string, pods []string, window time.Duration) string {
	names := make([]string, len(pods))
	for i, pod := range pods {
		names[i] = regexp.QuoteMeta(pod)
	}
	return fmt.Sprintf("max by (pod, container) (max_over_time(container_memory_usage_bytes{namespace=%q,pod=~%q,container!=\"\"}[%s]))",
		namespace, strings.Join(names, "|"), span(window))
}

// mostHeld is how many pods one query names: the address of a request that is no POST has to hold them.
const mostHeld = 200

// AskHeld asks whoever speaks PromQL for Held, once for each 200 pods. The answer is in bytes, by pod and container;
// what was not measured is missing.
func AskHeld(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time, ask Asker) (map[string]map[string]float64, error) {
	held := map[string]map[string]float64{}
	once := usage.Query{Start: at, End: at, Step: time.Second}
	for part := range slices.Chunk(pods, mostHeld) {
		_, err := ask(ctx, Held(namespace, part, window), once, func(e Element) {
			if len(e.Samples) == 0 {
				return
			}
			if held[e.Labels.Pod] == nil {
				held[e.Labels.Pod] = map[string]float64{}
			}
			held[e.Labels.Pod][e.Labels.Container] = e.Samples[len(e.Samples)-1].Value
		})
		if err != nil {
			return nil, err
		}
	}
	return held, nil
}

// Killed is the PromQL expression of how many processes of a container the kernel killed within the window for want
// of memory. A kill is counted from the last sample before the window, so that none falls between two scrapes; a
// container that started within the window counts from 0.
func Killed(namespace, pod, container string, window time.Duration) string {
	events := fmt.Sprintf("container_oom_events_total{%s}", one(namespace, pod, container))
	return fmt.Sprintf("max(%s - (%s offset %s or %s * 0))", events, events, span(window), events)
}

// Used is the PromQL expression of the CPU, in cores, that a container used over the window.
func Used(namespace, pod, container string, window time.Duration) string {
	return fmt.Sprintf("max(rate(container_cpu_usage_seconds_total{%s}[%s]))", one(namespace, pod, container), span(window))
}

// NodePressure is the PromQL expression of the fraction of time, 0 to 1, in which some task of a node waited for CPU
// over the window (PSI of its root cgroup).
func NodePressure(node string, window time.Duration) string {
	return fmt.Sprintf("max(rate(container_pressure_cpu_waiting_seconds_total{id=\"/\",node=%q}[%s]))", node, span(window))
}

// NodeLoad is the PromQL expression of a node's load average over a minute, as node-exporter has it: by the label
// node, or by the node's name as its kernel knows it.
func NodeLoad(node string) string {
	return fmt.Sprintf("max(node_load1{node=%q} or (node_load1 and on (instance) node_uname_info{nodename=%q}))", node, node)
}

// NodeUsage is the PromQL expression of the CPU, in cores, that a node used over the window.
func NodeUsage(node string, window time.Duration) string {
	return fmt.Sprintf("max(rate(node_cpu_usage_seconds_total{node=%q}[%s]) or rate(container_cpu_usage_seconds_total{id=\"/\",node=%q}[%s]))",
		node, span(window), node, span(window))
}

// one selects one container of one pod.
func one(namespace, pod, container string) string {
	return "namespace=" + strconv.Quote(namespace) + ",pod=" + strconv.Quote(pod) + ",container=" + strconv.Quote(container)
}
