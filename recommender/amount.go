// Package recommender computes what a container should request, and why. It is pure: it imports only the standard
// library, time is an argument, and the trace of the computation is its explanation. CPU and memory share every rule;
// their units are in types.
//
// The path of a recommendation:
//  1. history.go: NewProfile turns steps of usage into a Profile (input.go): percentiles by hour of the day, peak,
//     gaps, and confidence.
//  2. recommend.go: Recommend applies the rules of rules.go to the profile, in order: percentile, margin, burst,
//     confidence, floor, bounds. It returns a target, and holds (holds.go) that say why a target is missing or
//     blocked.
//  3. change.go: NextStep moves a live container one resize step towards its target; LimitFor returns the matching
//     limit.
//
// input.go also has the floors learned from regressions. format.go and reasons.go write amounts and reasons. The
// package never reads pods or clusters. Start reading with Recommend and the rule table in rules.go.
package recommender

import (
	"math"
	"math/bits"
)

// Resource is CPU or Memory. It indexes arrays of two, such as Size. The zero value is CPU.
type Resource uint8

const (
	// CPU is in millicores, Memory in bytes.
	CPU Resource = iota
	Memory
)

// Resources lists both, in the order of computation and reports.
var Resources = [...]Resource{CPU, Memory}

// String returns the name that objects and JSON use: cpu or memory.
func (r Resource) String() string {
	if r == Memory {
		return "memory"
	}
	return "cpu"
}

// ResourceOf converts a name that the operator wrote, cpu or memory, to a resource.
func ResourceOf(name string) Resource {
	if name == Memory.String() {
		return Memory
	}
	return CPU
}

// Measured converts a usage measured in cores or bytes.
func (r Resource) Measured(used float64) Usage {
	return Usage(used * [2]float64{CPU: 1000, Memory: 1}[r])
}

// Amount is an integer amount of a resource: millicores of CPU or bytes of memory. It is never negative. Zero means not
// set, because Kubernetes treats zero quantities as absent.
type Amount int64

// Usage is a measured amount of a resource in the same units. It may be fractional: 0.4 millicores is a real usage, and
// rounding it before the margin would round twice.
type Usage float64

// Allocation is the request and the limit of one resource of a container.
type Allocation struct {
	// Request is what the scheduler reserves; 0 means not set.
	Request Amount
	// Limit is the most that the container may use; 0 means no limit.
	Limit Amount
}

// Size has the allocations of both resources of a container, indexed by Resource. The zero value sets nothing.
type Size [2]Allocation

// MaxAmount is the largest amount in computations: 9 PB of memory, 9 billion cores. Every amount up to it is exact as a
// float64.
const MaxAmount Amount = 1 << 53

// RoundUp is the smallest amount at or above the usage, between 0 and MaxAmount; NaN and negative usage count as 0. A
// usage that exceeds a whole amount only by floating-point error (0.07 cores are 70.00000000000001 millicores) returns
// that whole amount.
func (u Usage) RoundUp() Amount {
	x := float64(u)
	switch {
	case !(x > 0):
		return 0
	case x >= float64(MaxAmount):
		return MaxAmount
	}
	if whole := math.Round(x); whole > 0 && math.Abs(x-whole) <= min(x*1e-12, 0.01) {
		return Amount(whole)
	}
	return Amount(math.Ceil(x))
}

// times is a × num / den, rounded down, without intermediate overflow, and at most MaxAmount. The arguments must not be
// negative, and den not 0.
func (a Amount) times(num, den Amount) Amount {
	high, low := bits.Mul64(uint64(a), uint64(num))
	if high >= uint64(den) {
		return MaxAmount
	}
	quotient, _ := bits.Div64(high, low, uint64(den))
	return Amount(min(quotient, uint64(MaxAmount)))
}

// scaled is a × factor, rounded up.
func (a Amount) scaled(factor float64) Amount { return Usage(float64(a) * factor).RoundUp() }

// Grains of stored, shown and applied memory. A CPU amount is always in whole millicores.
const (
	kibibyte Amount = 1 << 10
	mebibyte Amount = 1 << 20
	// coarseFrom is the smallest memory amount in whole MiB. Smaller amounts are in whole KiB, because a MiB would be a
	// large part of them.
	coarseFrom = 16 * mebibyte
)

// WholeMiB rounds memory up to a whole MiB.
func WholeMiB(a Amount) Amount { return (a + mebibyte - 1) / mebibyte * mebibyte }

// grain is the unit of a whole amount of this size, in millicores or bytes.
func (r Resource) grain(a Amount) Amount {
	switch {
	case r == CPU:
		return 1
	case a < coarseFrom:
		return kibibyte
	default:
		return mebibyte
	}
}

// Whole is the smallest whole amount at or above a: whole millicores of CPU; whole MiB of memory, or whole KiB below 16
// MiB. Amounts from MaxAmount on are returned unchanged.
func (r Resource) Whole(a Amount) Amount {
	if a >= MaxAmount {
		return a
	}
	g := r.grain(a)
	return (a + g - 1) / g * g
}

// WholeDown is the largest whole amount at or below a. It is 0 for less than 1 KiB of memory.
func (r Resource) WholeDown(a Amount) Amount { return a - a%r.grain(a) }

// WholeWithin is Whole of an amount, or WholeDown if Whole would exceed highest (0: no bound). It returns a unchanged
// if neither is within the bounds. The result is zero only if a is. A lowest above highest is ignored.
func (r Resource) WholeWithin(a, lowest, highest Amount) Amount {
	up, down := r.Whole(a), r.WholeDown(a)
	switch {
	case highest == 0 || up <= highest:
		return up
	case down > 0 && (down >= lowest || lowest > highest):
		return down
	default:
		return a
	}
}
