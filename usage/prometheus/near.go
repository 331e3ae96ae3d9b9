package prometheus

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"attune.io/attune/usage"
)

// On is the PromQL expression of the fraction of its memory limit that each container holds, of those that hold more than
// the given one.
func (s Scope) On(fraction float64) string {
	of := `container!="",container!="POD"` + string(s)
	return fmt.Sprintf("max by (namespace,pod,container) (container_memory_working_set_bytes{%s}) / max by (namespace,pod,container) (container_spec_memory_limit_bytes{%s} > 0) > %g",
		of, of, fraction)
}

// Needed is the PromQL expression of the memory, in bytes, that each container of some pods needs, and NeededAt that of when
// it was measured, in Unix seconds.
func (s Scope) Needed(namespace string, pods []string) string {
	return perContainer(fmt.Sprintf("container_memory_working_set_bytes{%s}", s.some(namespace, pods)))
}

// NeededAt: see Needed.
func (s Scope) NeededAt(namespace string, pods []string) string {
	return perContainer(fmt.Sprintf("timestamp(container_memory_working_set_bytes{%s})", s.some(namespace, pods)))
}

// NearPod names a pod.
type NearPod struct{ Namespace, Name string }

// Near knows of one server which containers are close to their memory limits, and asks it about those alone: it does not
// scrape, so it knows of them as late as the server does. It is safe for concurrent use; mutex guards seen.
type Near struct {
	// Ask evaluates a range query.
	Ask func(ctx context.Context, expression string, query usage.Query, yield func(Element)) (Said, error)
	// Scope narrows all selectors.
	Scope Scope

	mutex sync.Mutex
	seen  map[NearPod]time.Time
}

const (
	// nearFrom is the fraction of its limit from which on a container is asked about.
	nearFrom = 0.6
	// nearFor is for how long a pod is asked about after it was last seen so: as long as a raise is watched.
	nearFor = 40 * time.Minute
	// nearWindow and nearStep are those of what is asked.
	nearWindow, nearStep = 10 * time.Minute, 15 * time.Second
	// mostNear bounds the pods that are asked about.
	mostNear = 2_000
)

// Refresh asks which containers are close to their limits, and returns their pods.
func (n *Near) Refresh(ctx context.Context, now time.Time) ([]NearPod, error) {
	found := map[NearPod]bool{}
	_, err := n.Ask(ctx, n.Scope.On(nearFrom), once(now), func(e Element) {
		if e.Labels.Pod != "" && len(e.Samples) > 0 && len(found) < mostNear {
			found[NearPod{e.Labels.Namespace, e.Labels.Pod}] = true
		}
	})
	if err != nil {
		return nil, err
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	maps.DeleteFunc(n.seen, func(_ NearPod, at time.Time) bool { return now.Sub(at) > nearFor })
	if n.seen == nil {
		n.seen = map[NearPod]time.Time{}
	}
	pods := make([]NearPod, 0, len(found))
	for pod := range found {
		n.seen[pod] = now
		pods = append(pods, pod)
	}
	return pods, nil
}

// Lately returns what containers of those pods have held that were seen close to their limits: two questions, none where
// there is no such pod.
func (n *Near) Lately(ctx context.Context, namespace string, pods []string, at time.Time) (usage.Traces, error) {
	near := n.of(namespace, pods)
	out := usage.Traces{}
	for _, part := range parts(near) {
		values, err := n.window(ctx, n.Scope.Needed(namespace, part), at)
		if err != nil {
			return nil, err
		}
		times, err := n.window(ctx, n.Scope.NeededAt(namespace, part), at)
		if err != nil {
			return nil, err
		}
		for pod, containers := range values {
			out[pod] = map[string]usage.Trace{}
			for container, samples := range containers {
				out[pod][container] = usage.Trace{Samples: measuredAt(samples, times[pod][container])}
			}
		}
	}
	return out, nil
}

// of are those of some pods that were seen close to their limits.
func (n *Near) of(namespace string, pods []string) (near []string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, pod := range pods {
		if _, seen := n.seen[NearPod{namespace, pod}]; seen {
			near = append(near, pod)
		}
	}
	return near
}

// window evaluates an expression over the window, by pod and container.
func (n *Near) window(ctx context.Context, expression string, at time.Time) (map[string]map[string][]usage.Sample, error) {
	out := map[string]map[string][]usage.Sample{}
	_, err := n.Ask(ctx, expression, usage.Query{Start: at.Add(-nearWindow), End: at, Step: nearStep}, func(e Element) {
		if out[e.Labels.Pod] == nil {
			out[e.Labels.Pod] = map[string][]usage.Sample{}
		}
		out[e.Labels.Pod][e.Labels.Container] = append([]usage.Sample(nil), e.Samples...)
	})
	return out, err
}

// measuredAt gives values the times at which they were measured, each once: a server repeats a value until it has the
// next one.
func measuredAt(values, times []usage.Sample) (out []usage.Sample) {
	at := map[int64]int64{}
	for _, t := range times {
		at[t.At] = int64(t.Value * 1000)
	}
	for _, v := range values {
		when, known := at[v.At]
		if !known || len(out) > 0 && when <= out[len(out)-1].At {
			continue
		}
		out = append(out, usage.Sample{At: when, Value: v.Value})
	}
	return out
}
