// Package recommender computes what a container should request, and why. It is pure: it imports only the standard
// library, time is an argument, and the trace of the computation is its explanation. CPU and memory share every
// rule; their units are in types.
//
// The way of a recommendation:
//  1. history.go: NewProfile turns steps of usage into a Profile (profile.go): percentiles by hour of the day,
//     peak, gaps.
//  2. recommend.go: Recommend applies the rules of rules.go to the profile, in order: percentile, margin, burst,
//     confidence, floor, bounds. It returns a target, and holds (holds.go) that say why a target is missing or not
//     applied.
//  3. change.go: NextStep moves a live container one step towards its target; limits.go gives the limit that goes
//     with it.
//
// lessons.go has the floors that harm teaches, format.go and reasons.go write amounts and reasons. The package
// never looks at pods or clusters. Start reading with Recommend and the rule table in rules.go.
package recommender

// Resource is CPU or Memory. It indexes arrays of two, such as Size. The zero value is CPU.
type Resource uint8

const (
	// CPU is counted in millicores, Memory in bytes.
	CPU Resource = iota
	Memory
)

// Resources lists both, in the order in which they are computed and reported.
var Resources = [...]Resource{CPU, Memory}

// String returns the name that objects and JSON use: cpu or memory.
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

// Allocation is the request and the limit of one resource of a container.
type Allocation struct {
	// Request is what the scheduler reserves; 0: not set.
	Request Amount
	// Limit is what the container may use at most; 0: no limit.
	Limit Amount
}

// Size holds the allocations of both resources of a container, indexed by Resource. The zero value sets nothing.
type Size [2]Allocation
