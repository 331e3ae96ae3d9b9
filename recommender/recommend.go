package recommender

import "time"

// Input has everything that a recommendation for one container depends on.
type Input struct {
	// Container is its name; it is only copied into the result.
	Container string
	// Profile of the container's history.
	Profile Profile
	// Settings of the workload's policy.
	Settings Settings
	// Original is the container's size before attune; its ratio of limit to request is kept.
	Original Size
	// Floors of the request, learned from regressions, indexed by Resource; a zero amount means no floor.
	Floors [2]Floor
	// Killed is the minimum of the memory limit learned from OOM kills (OOMFloor); the zero value means no OOM kill.
	// The request follows it only if request and limit are equal. For a container without a limit, OOM kills count for
	// the request, in Floors.
	Killed Floor
	// Limits are the last memory limits in force, oldest first, with the usage under each (FollowedLimit).
	Limits []LimitUsage
	// Estimates are the estimates of the strategy Adaptive, indexed by Resource; nil for other strategies.
	Estimates *[2]Estimate
	// Held is a reason not to change a resource that only the caller knows (HPA, VPA), or nil.
	Held [2]*Hold
	// Kept are the ranges of requests with which autoscalers keep the number of replicas, indexed by Resource, or nil.
	Kept [2]*Kept
	// NotRunning: no pod has run since the last step, so old history does not mean that the source is silent.
	NotRunning bool
	// Implausible counts the dropped samples of the last day, indexed by Resource; the zero value: none were dropped.
	Implausible [2]Implausible
	// CountRuns: the workload runs from time to time (Jobs); a few whole runs count as much as many steps.
	CountRuns bool
	// Guaranteed: the template's pods have the QoS class Guaranteed, so their limits stay equal to their requests.
	Guaranteed bool
	// Now is the time of the decision.
	Now time.Time
}

// Hold is the reason why a resource has no target or is not changed. NoData and InsufficientData have no target. With
// any other reason the target is shown but not applied. With NotRunning, created pods may get it, because no pods are
// running.
type Hold struct {
	// Resource that the hold blocks.
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

// Recommendation is the recommended size of a container, and why. Recommend makes it; it has no pointers into its
// input.
type Recommendation struct {
	// Container is the name of the container.
	Container string
	// Confidence (0 to 1) and DataPoints (steps) are the lower values of the measured resources; 0 if no resource was
	// measured.
	Confidence float64
	DataPoints int
	// Target is the size after all rules. It is zero for a resource that is held without a target.
	Target Size
	// MemoryLimitFloor is the minimum of any memory limit: the greater of 1.1 times the peak and the learned floor. If
	// the history is too short or out of date, only the learned floor counts. It is never above MemoryCeiling.
	MemoryLimitFloor Amount
	// CPULimitFloor is 1.1 times the peak, below which no CPU limit is lowered; 0 if the target's limit is not lower.
	CPULimitFloor Amount
	// Holds are the reasons why a resource is not applied.
	Holds []Hold
	// Steps are the rules in the order in which they were applied; nil if Target made it.
	Steps []Step
}

// Recommend computes the recommended size of a container. It is a pure function. The returned steps are the
// computation, in order: percentile, margin, burst, confidence, floor, bounds, hpa (with Kept), first for CPU and then for memory. With
// the strategy Adaptive the first four are one step, adaptive. A resource without enough data has no steps.
func Recommend(in Input) Recommendation {
	t := newTrace()
	r := recommend(&in, t)
	r.Steps = t.finish()
	return r
}

// Target is Recommend without the steps, which take most of its time. It is for callers that decide often and do not
// explain, such as a replay.
func Target(in Input) Recommendation { return recommend(&in, nil) }

func recommend(in *Input, t *trace) Recommendation {
	r := Recommendation{Container: in.Container}
	ineffective := in.Guaranteed && in.Settings.Of[CPU].Limits != (LimitRule{})
	if ineffective {
		in.Settings.Of[CPU].Limits = LimitRule{}
	}
	for _, resource := range Resources {
		c := chainOf(in, resource)
		r.countEvidence(&c)
		r.Target[resource] = c.target(t)
		if ineffective && resource == CPU {
			t.amend("; cpu.limits has no effect: the pods are Guaranteed, and their limits stay equal to their requests")
		}
		r.Holds = c.appendHolds(r.Holds, in, r.Target[resource].Request)
		if resource == Memory {
			r.MemoryLimitFloor = c.provenLimitFloor(in.Now)
		} else {
			r.CPULimitFloor = c.keptLimit(r.Target[CPU].Request)
		}
	}
	return r
}

// countEvidence keeps the lower confidence and number of steps.
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

// Move has everything that one resize step of a live container towards its target depends on.
type Move struct {
	// Container is its name, only for messages of the caller.
	Container string
	// Target is the size after the bounds; a zero request leaves that resource unchanged.
	Target Size
	// MemoryLimitFloor is the minimum of any memory limit. Above the original limit and maxAllowed it raises none, but for
	// OOMFloor, the part of it that was learned from OOM kills.
	MemoryLimitFloor, OOMFloor Amount
	// CPULimitFloor is the CPU limit below which none is lowered; 0: not known, or not above the target's.
	CPULimitFloor Amount
	// Largest bounds raises of a limit, indexed by Resource: the size of the largest node; 0: not known. A higher limit
	// of Original stays.
	Largest [2]Amount
	// Live is the current size of the pod, never its template.
	Live Size
	// Original is the container's size before attune; its ratio of limit to request is kept.
	Original Size
	// Guaranteed: the pod has the QoS class Guaranteed, so its limits stay equal to its requests.
	Guaranteed bool
	// Due are resources of which a raise is due: it goes to the target at once, without the cap of a step.
	Due [2]bool
	// Settings of the workload's policy: bounds, the cap of one step, whether limits follow, and whether memory may be
	// lowered.
	Settings Settings
}

// Change is one resize step from a live allocation towards a target.
type Change struct {
	// Next is the size to apply now; it equals the live size if nothing changes.
	Next Size
	// Holds are the reasons why a resource does not move although it has a target.
	Holds []Hold
	// Steps has one entry for each resource with a target or with a limit that is too low.
	Steps []Step
}
