package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/test/kubelet"
)

// elastic is memory that a container uses because its limit lets it: it is measured as any other, and kills nothing by
// itself.
type elastic struct {
	// heap is the part of its limit at the start of the container that its process reserves (MaxRAMPercentage).
	heap float64
	// fills is how fast page cache that counts in the working set fills what the limit leaves, in bytes a second. The
	// kernel takes it back instead of killing.
	fills float64
}

// fillsUpTo is the part of a limit that page cache fills.
const fillsUpTo = 0.98

func (e elastic) follows() bool { return e.heap > 0 || e.fills > 0 }

// limitSince is a limit, in bytes or cores, and since when it is in force; 0: none.
type limitSince struct {
	at    time.Time
	limit float64
}

// addLimit adds the limit of a container that runs to those that were in force.
func addLimit(limits []limitSince, limit *resource.Quantity, now time.Time) []limitSince {
	is := limit.AsApproximateFloat64()
	if n := len(limits); n > 0 && limits[n-1].limit == is {
		return limits
	}
	return append(limits, limitSince{now, is})
}

// memoryAt is what a usage source says of a container's memory, in bytes.
func (l *life) memoryAt(at time.Time) float64 {
	return l.of.memoryAt(at, l.started, l.pod) + l.elastic(at)
}

// elastic is the part of it that follows the limit: page cache fills on from what it held whenever the limit is raised, and
// is given back where the limit is lowered.
func (l *life) elastic(at time.Time) float64 {
	if !l.of.elastic.follows() || len(l.limits) == 0 {
		return 0
	}
	heap, cache, since, limit := 0.0, 0.0, l.started, l.limits[0].limit
	for i, next := range l.limits {
		if !next.at.After(l.started) || i == 0 {
			limit = next.limit
			continue
		}
		if next.at.After(at) {
			break
		}
		cache = l.of.elastic.filled(cache, next.at.Sub(since), limit-l.of.memory)
		since, limit = next.at, next.limit
	}
	cache = l.of.elastic.filled(cache, at.Sub(since), limit-l.of.memory)
	if at.Sub(l.started) >= fillsIn {
		heap = l.of.elastic.heap * l.startedWith()
	}
	return heap + cache
}

// startedWith is the limit that was in force when the container started.
func (l *life) startedWith() float64 {
	limit := l.limits[0].limit
	for _, next := range l.limits {
		if !next.at.After(l.started.Add(fillsIn / 2)) {
			limit = next.limit
		}
	}
	return limit
}

// filled is page cache after a while, in bytes.
func (e elastic) filled(from float64, d time.Duration, room float64) float64 {
	return max(0, min(from+e.fills*d.Seconds(), room*fillsUpTo))
}

// heap that a process reserved when it started.
func (w *world) heap(d demand, run kubelet.Run) float64 {
	if d.elastic.heap == 0 {
		return 0
	}
	return d.elastic.heap * w.startOf(run).limit
}

// most page cache that its limit leaves a container: the kubelet does not know how much of it is there by now.
func (e elastic) most(run kubelet.Run) float64 {
	if e.fills == 0 {
		return 0
	}
	return fillsUpTo * float64(run.Actual.Limits.Memory().Value())
}

// elasticOf the first container of a pod now, in bytes.
func (w *world) elasticOf(pod *corev1.Pod) float64 {
	for _, l := range w.lives.all[string(pod.UID)] {
		return l.elastic(w.time.now)
	}
	return 0
}

// without is what it would use where the limit is that of its template, in bytes.
func (e elastic) without(template float64) float64 {
	if e.fills > 0 {
		return fillsUpTo * template
	}
	return e.heap * template
}
