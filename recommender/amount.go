// Package recommender answers one question: what should this container
// request, and why? It is pure: standard library only, time is an argument, and
// the trace of the computation is its explanation. CPU and memory share every
// rule; their units live in types.
package recommender

// Resource is CPU or Memory.
type Resource uint8

const (
	CPU Resource = iota
	Memory
)

// Resources are both, in the order in which they are reported.
var Resources = [...]Resource{CPU, Memory}

// String is the name used in objects and JSON: cpu or memory.
func (r Resource) String() string {
	if r == Memory {
		return "memory"
	}
	return "cpu"
}

// Amount is an integer amount of a resource: millicores of CPU or bytes of memory. It is never
// negative. Zero means not set, as Kubernetes counts zero quantities as absent.
type Amount int64

// Usage is a measured amount of a resource in the same units, which may be fractional: 0.4 millicores
// is a real usage, and rounding it before the margin would count the rounding twice.
type Usage float64

// Allocation is what a container holds of one resource.
type Allocation struct {
	Request Amount
	Limit   Amount
}

// Size is what a container holds of both resources, indexed by Resource.
type Size [2]Allocation
