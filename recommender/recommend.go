package recommender

import "time"

// Input is everything on which a recommendation for one container depends.
type Input struct {
	// Container is its name; it is only copied into the result.
	Container string
	// Profile of the container's history.
	Profile Profile
	// Settings of the workload's policy.
	Settings Settings
	// Original is what the container had before attune; its ratio of limit to request is kept.
	Original Size
	// Floors of the request that were learned from harm, indexed by Resource; zero amounts are none.
	Floors [2]Floor
	// Killed is what OOM kills taught of the memory limit (OOMFloor); the zero value: nothing. The request
	// follows it only where it equals the limit. Of a container without a limit the request counts: that is in Floors.
	Killed Floor
	// Estimates are what the strategy Adaptive made of the container's past, indexed by Resource; nil for others.
	Estimates *[2]Estimate
	// Held is a reason not to change a resource that only the caller knows (HPA, VPA); nil: none.
	Held [2]*Hold
	// NotRunning: no pod has run since the last step, so that an old history is no sign of a silent source.
	NotRunning bool
	// Implausible are the samples of the last day that were dropped, indexed by Resource; the zero value: none was.
	Implausible [2]Implausible
	// CountRuns: the workload runs now and then (Jobs); a few whole runs count as much as many steps.
	CountRuns bool
	// Now is the time of the decision.
	Now time.Time
}

// Hold is the reason why a resource has no target or is not changed. NoData and InsufficientData come without a
// target. With any other reason the target is still shown and nothing of it is applied; with NotRunning new pods
// may get it, as there are no running ones.
type Hold struct {
	// Resource that is held.
	Resource Resource
	// Reason of the hold.
	Reason Reason
	// Message is one sentence with the figures.
	Message string
}

// Step is one applied rule: its name, the request before and after it, and the reason.
type Step struct {
	// Resource to which the rule was applied.
	Resource Resource
	// Name of the rule, such as percentile or change.
	Name string
	// Before and After are the request in millicores or bytes.
	Before, After Amount
	// Reason is one sentence with the figures, for people.
	Reason string
}

// Recommendation is the size that a container should have, and why. Recommend makes it; it holds no pointers into
// its input.
type Recommendation struct {
	// Container is the name of the container.
	Container string
	// Confidence (0 to 1) and DataPoints (steps) are those of the resource that is known less well, of the
	// resources that were measured at all; 0 where none was.
	Confidence float64
	DataPoints int
	// Target is the size after all rules. A resource that is held without a target is zero.
	Target Size
	// MemoryLimitFloor is what no memory limit may be below: 1.1 times the peak, and the learned floor;
	// only the latter where the history is too short or too old to be relied on. It is never above MemoryCeiling.
	MemoryLimitFloor Amount
	// Holds are the reasons why a resource is not applied.
	Holds []Hold
	// Steps are the rules in the order in which they were applied; nil from Target.
	Steps []Step
}

// Recommend computes the size that a container should have. It is a pure function. The returned steps are the
// computation, in order: percentile, margin, burst, confidence, floor, bounds, first for CPU and then for memory.
// With the strategy Adaptive the first four are one step, adaptive.
// A resource without enough data has no steps.
func Recommend(in Input) Recommendation {
	t := newTrace()
	r := recommend(&in, t)
	r.Steps = t.finish()
	return r
}

// Target is Recommend without the steps, which cost most of its time. It is for callers that decide often and
// explain nothing, such as a replay.
func Target(in Input) Recommendation { return recommend(&in, nil) }

func recommend(in *Input, t *trace) Recommendation {
	r := Recommendation{Container: in.Container}
	for _, resource := range Resources {
		c := chainOf(in, resource)
		r.countEvidence(&c)
		r.Target[resource] = c.target(t)
		r.Holds = c.appendHolds(r.Holds, in)
		if resource == Memory {
			r.MemoryLimitFloor = c.provenLimitFloor(in.Now)
		}
	}
	return r
}

// countEvidence keeps the lesser confidence and number of steps.
func (r *Recommendation) countEvidence(c *chain) {
	points := c.history.Points
	if points == 0 {
		return
	}
	if r.DataPoints == 0 {
		r.DataPoints, r.Confidence = points, c.confidence
		return
	}
	r.DataPoints, r.Confidence = min(r.DataPoints, points), min(r.Confidence, c.confidence)
}

// Move is everything that one step of a live container towards its target depends on.
type Move struct {
	// Container is its name, for messages of the caller only.
	Container string
	// Target is the size after the bounds; a zero request leaves that resource alone.
	Target Size
	// MemoryLimitFloor is what no memory limit may be below.
	MemoryLimitFloor Amount
	// Largest is what a limit is raised to at most, indexed by Resource: that of the largest node. 0: not known. A greater
	// limit of Original stays.
	Largest [2]Amount
	// Live is what the pod has now, never its template.
	Live Size
	// Original is what the container had before attune: its limit-to-request ratio is kept.
	Original Size
	// Settings of the workload's policy: bounds, the cap of one step, whether limits follow and memory may be
	// lowered.
	Settings Settings
}

// Change is the step from a live allocation towards a target.
type Change struct {
	// Next is what would be applied now; it equals the live size where nothing would.
	Next Size
	// Holds are the reasons why a resource does not move although it has a target.
	Holds []Hold
	// Steps has one entry for each resource that has a target or a limit that is too low.
	Steps []Step
}
