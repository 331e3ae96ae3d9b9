package prometheus

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"attune.io/attune/usage"
)

// On is the PromQL expression of the fraction of its memory limit that each container of some namespaces uses, for
// containers above the given fraction. The answer may include other namespaces.
func (s Scope) On(fraction float64, namespaces []string) string {
	of := s.selector(usage.Query{Namespaces: namespaces})
	return fmt.Sprintf("max by (namespace,pod,container) (container_memory_working_set_bytes{%s}) / max by (namespace,pod,container) (container_spec_memory_limit_bytes{%s} > 0) > %g",
		of, of, fraction)
}

// Needed is the PromQL expression of the memory, in bytes, that each container of some pods needs. NeededAt is the
// expression of the time of the measurement, in Unix seconds.
func (s Scope) Needed(namespace string, pods []string) string {
	return perContainer(fmt.Sprintf("container_memory_working_set_bytes{%s}", s.some(namespace, pods)))
}

// NeededAt: see Needed.
func (s Scope) NeededAt(namespace string, pods []string) string {
	return perContainer(fmt.Sprintf("timestamp(container_memory_working_set_bytes{%s})", s.some(namespace, pods)))
}

// NearPod names a pod.
type NearPod struct{ Namespace, Name string }

// NearPods are the pods that a refresh found close to their limits.
type NearPods struct {
	// Grown are the pods whose memory has grown since they were last reported.
	Grown []NearPod
	// Left is how many pods found no room.
	Left int
}

// Near finds, for one server, the containers close to their memory limits, and queries only those. It does not scrape,
// so it sees them as late as the server does. It is safe for concurrent use; mutex guards the fields below it.
type Near struct {
	// Ask evaluates a range query.
	Ask func(ctx context.Context, expression string, query usage.Query, yield func(Element)) (usage.Report, error)
	// Raised returns the namespaces with workloads whose memory may be raised. Pods of other namespaces take no room.
	Raised func(ctx context.Context) (map[string]bool, error)
	// Noise is the minimum growth for a container that uses a fraction of its limit, as a fraction of the limit.
	Noise func(fraction float64) float64
	// Scope narrows all selectors.
	Scope Scope

	mutex sync.Mutex
	// seen is when a pod was last found close to its limit.
	seen map[NearPod]time.Time
	// lowest is the lowest fraction of its limit that each container of the newest answer has used since its pod was
	// last reported.
	lowest map[nearContainer]float64
	// turn is the index of the namespace that comes first, in sorted order.
	turn int
}

const (
	// nearFrom is the fraction of its limit above which a container is queried.
	nearFrom = 0.6
	// nearFor is how long a pod is queried after it was last close to its limit: as long as a raise is observed.
	nearFor = 40 * time.Minute
	// nearWindow and nearStep are the window and the step of these queries.
	nearWindow, nearStep = 10 * time.Minute, 15 * time.Second
	// mostNear bounds the pods of one refresh.
	mostNear = 2_000
)

// nearContainer names a container.
type nearContainer struct {
	NearPod
	container string
}

// Refresh queries which containers are close to their limits. An error changes nothing.
func (n *Near) Refresh(ctx context.Context, now time.Time) (NearPods, error) {
	raised, err := n.Raised(ctx)
	if err != nil {
		return NearPods{}, err
	}
	held := map[nearContainer]float64{}
	if len(raised) > 0 {
		_, err = n.Ask(ctx, n.Scope.On(nearFrom, slices.Collect(maps.Keys(raised))), once(now), func(e Element) {
			if of := e.Labels; of.Pod != "" && len(e.Samples) > 0 && raised[of.Namespace] {
				held[nearContainer{NearPod{of.Namespace, of.Pod}, of.Container}] = e.Samples[len(e.Samples)-1].Value
			}
		})
	}
	if err != nil {
		return NearPods{}, err
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.note(held, now), nil
}

// note records the memory of containers, as fractions of their limits. The caller holds mutex.
func (n *Near) note(held map[nearContainer]float64, now time.Time) NearPods {
	found := n.grown(held)
	taken := n.inTurns(found)
	maps.DeleteFunc(n.seen, func(_ NearPod, at time.Time) bool { return now.Sub(at) > nearFor })
	if n.seen == nil {
		n.seen = map[NearPod]time.Time{}
	}
	out := NearPods{Left: len(found) - len(taken)}
	for _, pod := range taken {
		n.seen[pod.NearPod] = now
		if pod.grown {
			out.Grown = append(out.Grown, pod.NearPod)
			pod.named = true
		}
	}
	for of, fraction := range held {
		if found[of.NearPod].named {
			n.lowest[of] = fraction
		}
	}
	return out
}

// closePod is a pod with a container close to its limit.
type closePod struct {
	NearPod
	// most is the highest fraction of its containers.
	most float64
	// grown: a container uses more than when the pod was last reported. named: the pod is reported now.
	grown, named bool
}

// grown returns the pods of an answer, and drops containers that are not in it. So the answer bounds the remembered
// state. Growth counts from the lowest fraction since the last report. So a slow climb adds up, and a pod with constant
// memory is not reported again. A container that was not in the last answer was below nearFrom. The caller holds mutex.
func (n *Near) grown(held map[nearContainer]float64) map[NearPod]*closePod {
	lowest, found := make(map[nearContainer]float64, len(held)), map[NearPod]*closePod{}
	for of, fraction := range held {
		before, known := n.lowest[of]
		if !known {
			before = nearFrom
		}
		lowest[of] = min(before, fraction)
		pod := found[of.NearPod]
		if pod == nil {
			pod = &closePod{NearPod: of.NearPod}
			found[of.NearPod] = pod
		}
		pod.most = max(pod.most, fraction)
		pod.grown = pod.grown || fraction-before > n.Noise(fraction)
	}
	n.lowest = lowest
	return found
}

// inTurns takes as many pods as there is room for, one per namespace in turns, so that no namespace can displace the
// others. Within a namespace, grown pods come first, then the pods closest to their limits. If there is not enough room
// for all pods, the next refresh starts mostNear namespaces further on, in a circle. The caller holds mutex.
func (n *Near) inTurns(found map[NearPod]*closePod) (taken []*closePod) {
	of := map[string][]*closePod{}
	for _, pod := range found {
		of[pod.Namespace] = append(of[pod.Namespace], pod)
	}
	for _, pods := range of {
		slices.SortFunc(pods, func(a, b *closePod) int {
			switch {
			case a.grown && !b.grown:
				return -1
			case b.grown && !a.grown:
				return 1
			}
			return cmp.Or(cmp.Compare(b.most, a.most), cmp.Compare(a.Name, b.Name))
		})
	}
	names, room := slices.Sorted(maps.Keys(of)), min(mostNear, len(found))
	for round := 0; len(taken) < room; round++ {
		for i := range names {
			if pods := of[names[(n.turn+i)%len(names)]]; round < len(pods) && len(taken) < room {
				taken = append(taken, pods[round])
			}
		}
	}
	if room < len(found) {
		n.turn = (n.turn + mostNear) % len(names)
	}
	return taken
}

// Lately returns the recent memory of the containers of those pods that were seen close to their limits. It needs two
// queries, and no query if there is no such pod.
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

// of returns those pods that were seen close to their limits.
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
		out[e.Labels.Pod][e.Labels.Container] = slices.Clone(e.Samples)
	})
	return out, err
}

// measuredAt replaces the times of values by their measurement times, each once: a server repeats a value until it has
// the next one.
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
