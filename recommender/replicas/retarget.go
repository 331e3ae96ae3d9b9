package replicas

import "math"

// Threshold is the usage of a pod at which an HPA keeps its number of replicas: a target of a request, both as their user
// wrote them.
type Threshold struct {
	// Target is the utilization in percent of the request; at least 1.
	Target int32
	// Request is the request of a pod that the HPA divides by, in millicores; above 0.
	Request float64
}

// LeastTarget and GreatestTarget are the bounds of a rewritten target.
const LeastTarget, GreatestTarget int32 = 30, 90

// Usage is the threshold in the unit of the request.
func (t Threshold) Usage() float64 { return float64(t.Target) / 100 * t.Request }

// At is the whole target that is nearest to the threshold if pods request this much on average: it is less than 0.5
// percentage points away. The request has to be above 0.
func (t Threshold) At(request float64) int32 {
	if request == t.Request {
		return t.Target
	}
	return int32(max(1, min(math.Round(100*t.Usage()/request), math.MaxInt32)))
}

// Range is that of the requests whose target is within LeastTarget and GreatestTarget. It includes the original request.
func (t Threshold) Range() (least, greatest float64) {
	usage := 100 * t.Usage()
	return min(t.Request, usage/float64(GreatestTarget)), max(t.Request, usage/float64(LeastTarget))
}
