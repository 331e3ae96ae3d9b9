package usage

import (
	"cmp"
	"context"
)

// Most is the upper bound of a container's usage, in cores and bytes. A field of 0 is not known.
type Most struct{ Cores, Bytes float64 }

// nodeFactor is how far a sample may exceed the largest node: a counter and its clock are read at slightly different
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

// Bounded is a source whose samples are checked against the largest known node.
type Bounded struct {
	Source
	// Most is the upper bound of a container's usage; the zero value if no node is known.
	Most func() Most
}

// Read implements Source.
func (b Bounded) Read(ctx context.Context, query Query, yield func(Series)) (Report, error) {
	query.Most = b.Most()
	return b.Source.Read(ctx, query, yield)
}
