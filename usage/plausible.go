package usage

import (
	"cmp"
	"context"
	"time"
)

// Most is the upper bound of a container's usage, in cores and bytes. A field of 0 is not known.
type Most struct{ Cores, Bytes float64 }

// nodeFactor is how far a sample may exceed a node or a limit: a counter and its clock are read at slightly different
// moments, so a counter may seem to run too fast.
const nodeFactor = 1.5

// Several times the largest nodes (some 2,000 CPUs and 32 TiB), for sources with unknown nodes.
const (
	mostCores = 10_000
	mostBytes = 64 << 40
)

// MostOn is the upper bound of usage on the largest node, given its cores and bytes; 0: not known.
func MostOn(cores, bytes float64) Most { return Most{cores * nodeFactor, bytes * nodeFactor} }

// Of returns the bound of memory (bytes) or CPU (cores).
func (m Most) Of(memory bool) float64 {
	if memory {
		return cmp.Or(m.Bytes, mostBytes)
	}
	return cmp.Or(m.Cores, mostCores)
}

// DropOf returns why a sample of memory (bytes) or CPU (cores) is impossible, or empty. CPU of 0 is a valid
// measurement.
func (m Most) DropOf(value float64, memory bool) Drop {
	switch drop := DropOf(value); {
	case drop != "":
		return drop
	case memory && value == 0:
		return DropZero
	case value > m.Of(memory):
		return DropImplausible
	}
	return ""
}

// Facts are what the API server knows about one container of an existing pod. The zero value: nothing. Times are in
// Unix milliseconds; 0: not known.
type Facts struct {
	// Created is when the pod was created. Earlier samples are of another pod with the same name.
	Created int64
	// Node is the capacity of the pod's node.
	Node Most
	// Limit has the limits in force since LimitSince; 0: no limit.
	Limit      Most
	LimitSince int64
	// Started is when the running container started, Restarts how often the container restarted within 24 hours.
	Started  int64
	Restarts int
}

// DropOf returns why a sample of the container is impossible, or empty. window is the time before the sample that it
// was measured over: a node and a limit bound it only if they were in force all that time.
func (f Facts) DropOf(s Sample, memory bool, largest Most, window time.Duration) Drop {
	drop := largest.DropOf(s.Value, memory)
	if drop != "" && drop != DropImplausible {
		return drop
	}
	exceeds := func(since int64, why Drop) bool {
		bound := f.Bound(why, memory, largest)
		return since > 0 && s.At-window.Milliseconds() >= since && bound > 0 && s.Value > bound
	}
	switch {
	case exceeds(f.Created, DropNode):
		return DropNode
	case drop == "" && exceeds(f.LimitSince, DropLimit):
		return DropLimit
	}
	return drop
}

// Bound is the bound, in cores or bytes, that samples with this reason exceed; 0: none. Memory has no factor on a known
// node: it is measured at one moment.
func (f Facts) Bound(why Drop, memory bool, largest Most) float64 {
	of := func(m Most) float64 {
		if memory {
			return m.Bytes
		}
		return m.Cores
	}
	switch {
	case why == DropNode && memory:
		return f.Node.Bytes
	case why == DropNode:
		return f.Node.Cores * nodeFactor
	case why == DropLimit:
		return of(f.Limit) * nodeFactor
	case why == DropImplausible:
		return largest.Of(memory)
	}
	return 0
}

// Judge tells sources what they check samples against.
type Judge struct {
	// Most is the bound of the largest known node; the zero value if no node is known.
	Most func() Most
	// Of returns the facts about a container; nil: none are known. Several goroutines call it.
	Of func(namespace, pod, container string) Facts
}

// Wrap returns a source whose samples are checked.
func (j Judge) Wrap(s Source) Source { return judged{s, j} }

type judged struct {
	Source
	judge Judge
}

// Read implements Source.
func (j judged) Read(ctx context.Context, query Query, yield func(Series)) (Report, error) {
	query.Most, query.Of = j.judge.Most(), j.judge.Of
	return j.Source.Read(ctx, query, yield)
}
