package usage

import (
	"cmp"
	"context"
)

// Most is what a container can use at most, in cores and bytes. A field of 0 is not known.
type Most struct{ Cores, Bytes float64 }

// nodeFactor is how far a sample may exceed the largest node: a counter and its clock are read at slightly different
// moments, so that a counter may seem to run faster than it does.
const nodeFactor = 1.5

// Several times what the largest nodes are made of (some 2,000 CPUs and 32 TiB), for sources whose nodes are not known.
const (
	mostCores = 10_000
	mostBytes = 64 << 40
)

// MostOn is what a container can use on the largest node, given its cores and bytes; 0: not known.
func MostOn(cores, bytes float64) Most { return Most{cores * nodeFactor, bytes * nodeFactor} }

// Of is the most of memory (bytes) or of CPU (cores).
func (m Most) Of(memory bool) float64 {
	if memory {
		return cmp.Or(m.Bytes, mostBytes)
	}
	return cmp.Or(m.Cores, mostCores)
}

// DropOf is why a sample of memory (bytes) or of CPU (cores) cannot be true, or empty. CPU of 0 is a measurement.
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

// Bounded is a source whose samples are judged by the largest node that is known.
type Bounded struct {
	Source
	// Most is what a container can use at most; the zero value: no node is known.
	Most func() Most
}

// Read implements Source.
func (b Bounded) Read(ctx context.Context, query Query, yield func(Series)) (Report, error) {
	query.Most = b.Most()
	return b.Source.Read(ctx, query, yield)
}
