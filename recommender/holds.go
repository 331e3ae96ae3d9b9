package recommender

import (
	"strings"
	"time"
)

// Reason is the name of a hold in objects and metrics.
type Reason string

// The reasons of holds: too little or no history, history that ended, a change within the dead band, memory that must
// not be lowered, a floor above the policy's maximum, and usage that follows its limit.
const (
	InsufficientData   Reason = "InsufficientData"
	StaleData          Reason = "StaleData"
	NotRunning         Reason = "NotRunning"
	NoData             Reason = "NoData"
	SmallChange        Reason = "SmallChange"
	DecreaseNotAllowed Reason = "AllowDecrease"
	FloorAboveMaximum  Reason = "FloorAboveMaxAllowed"
	FollowsItsLimit    Reason = "FollowsItsLimit"
	// NotControlled: the policy leaves the resource of the container as it is.
	NotControlled Reason = "NotControlled"
	// UsageImplausible: most samples of the last day are impossible values.
	UsageImplausible Reason = "UsageImplausible"
)

// StaleAfter is the maximum age of the newest step of history: two steps, and ten minutes for a source that lags.
func (s *Settings) StaleAfter() time.Duration { return 2*s.QueryStep + 10*time.Minute }

// appendHolds adds the reasons why the resource has no target, or why its target is blocked.
func (c *chain) appendHolds(holds []Hold, in *Input, target Amount) []Hold {
	if field := c.settings.Uncontrolled; field != "" {
		return append(holds, *c.hold(NotControlled, sentence(field).text(" does not name ").text(c.resource.String()).
			text(": attune leaves its request and limit as they are")))
	}
	for _, hold := range [...]*Hold{c.implausible(in), c.tooLittle(in), c.stale(in.Now), c.asleep(in.Now), c.beyondMaximum(), c.braked(), c.outsideKept(target), c.callerHold(in)} {
		if hold != nil {
			holds = append(holds, *hold)
		}
	}
	return holds
}

// callerHold returns the caller's hold of the resource, or nil.
func (c *chain) callerHold(in *Input) *Hold {
	held := in.Held[c.resource]
	if held == nil {
		return nil
	}
	return &Hold{Resource: c.resource, Reason: held.Reason, Message: held.Message}
}

// provenLimitFloor is the limit's floor. It omits the peak if the history is too short or out of date. A learned floor
// comes from a regression observed on a pod, and applies in any state of the history.
func (c *chain) provenLimitFloor(now time.Time) Amount {
	if c.settings.Uncontrolled != "" {
		return 0
	}
	if !c.enough() || c.silent(now) {
		return Memory.Whole(max(c.learned.Amount, c.killed))
	}
	return c.limitFloor
}

// enough reports whether there is enough history for a target: a number of steps, or some whole runs for a workload
// that runs from time to time. The strategy Adaptive also needs an estimate.
func (c *chain) enough() bool {
	return c.measured() && (!c.all.Adapts() || c.estimate.Rule != "")
}

// measured reports whether there are enough steps or runs.
func (c *chain) measured() bool {
	return c.history.Points >= c.pointsNeeded() || c.history.Points > 0 && c.in.CountRuns && c.runs >= FirstRuns
}

func (c *chain) pointsNeeded() int { return max(c.all.MinimumDataPoints, 1) }

// outdated reports whether the newest step is older than StaleAfter.
func (c *chain) outdated(now time.Time) bool { return now.Sub(c.history.Last) > c.all.StaleAfter() }

// silent reports whether pods ran but the source has no new data about them.
func (c *chain) silent(now time.Time) bool { return c.outdated(now) && !c.in.NotRunning }

// Implausible counts the samples of a resource that were dropped in the last day because no container uses such an
// amount.
type Implausible struct {
	// Dropped samples, out of all samples (Of), and how many of them are 0 (Zeros: not measured) or AboveLimit.
	Dropped, Of, Zeros, AboveLimit int
	// Highest dropped sample, and the upper bound of a sample (Most), in millicores or bytes. Bound is what sets it.
	Highest, Most Usage
	Bound         Bound
	// Cause is why the samples were dropped, if not for the bound. Fix is what to change; empty: not known.
	Cause, Fix string
}

// Bound is what limits a sample.
type Bound uint8

// The bounds of samples.
const (
	OfLargestNode Bound = iota
	OfNode
	OfLimit
)

// told has the text before a bound, and the action that lifts a block by it.
var told = [...]struct{ exceeds, fix string }{
	OfLargestNode: {": no container can use more than ", "fix the usage source, or set a larger node (nodes.largest, --node)"},
	OfNode:        {": on its node, no container can use more than ", "fix the usage source. If the node has grown, restart its kubelet"},
	OfLimit:       {": the limit of the container allows no more than ", "fix the usage source. If the node enforces no CPU limits, remove the limit"},
}

// Blocks reports whether more than half of the samples were dropped: the others are not reliable either. Of samples above
// the limit 5 % are enough, because they may be true: of a container whose limit is not enforced the busy hours are dropped,
// and the idle ones are left.
func (i Implausible) Blocks() bool {
	return i.mostly() || i.AboveLimit > fewGlitches && 20*i.AboveLimit > i.Of
}

// fewGlitches is the most samples above the limit that block nothing, however few samples there are.
const fewGlitches = 3

func (i Implausible) mostly() bool { return 2*i.Dropped > i.Of }

// Told returns the highest dropped sample and the cause as text, such as "1602 cores: no container can use more than 96
// cores".
func (i Implausible) Told(r Resource) string {
	of := sentence(nil).greatest(r, i.Highest)
	if i.Cause != "" {
		of = of.text(": ").text(i.Cause)
	} else {
		of = of.text(told[i.Bound].exceeds).greatest(r, i.Most)
	}
	if i.Fix != "" {
		of = of.text(". ").text(i.Fix)
	}
	return string(of)
}

// Sentence returns which share of the last day's samples was dropped, the cause and the fix, such as "1 % of the cpu samples of
// the last day were dropped, up to 1602 cores: no container can use more than 96 cores. Fix the usage source".
func (i Implausible) Sentence(r Resource) string {
	of, fix := i.count(r, i.Dropped).text(" were dropped, up to ").text(i.Told(r)), told[i.Bound].fix
	switch {
	case 2*i.Zeros > i.Dropped:
		of, fix = i.count(r, i.Zeros).text(unmeasured[r].cause), unmeasured[r].fix
	case i.Cause != "" || i.Fix != "": // Told has the fix
		return string(of)
	}
	return string(of) + ". " + strings.ToUpper(fix[:1]) + fix[1:]
}

// unmeasured has the cause and the fix of samples that are 0.
var unmeasured = [2]struct{ cause, fix string }{
	CPU:    {" were 0, like those of almost all containers: the usage source does not measure CPU", "check the kubelets and the container runtime"},
	Memory: {" were 0 bytes: the kubelet reports no working set", "check the container runtime of the node"},
}

// count writes which share of the last day's samples were dropped, or were 0. The share rarely changes: counts would change
// with each sample, and each change is a write to the API server.
func (i Implausible) count(r Resource, n int) sentence {
	share := sentence(nil).count(100 * n / max(1, i.Of)).text(" % of the ")
	if 100*n < i.Of {
		share = sentence("less than 1 % of the ")
	}
	return share.text(r.String()).text(" samples of the last day")
}

// notMeasured reports whether nothing but samples of 0 is known of the resource: it has no data.
func (c *chain) notMeasured(in *Input) bool {
	i := in.Implausible[c.resource]
	return i.Zeros > 0 && i.Zeros == i.Of && c.history.Points == 0
}

// implausible returns the hold of a resource whose samples are mostly impossible values, or nil.
func (c *chain) implausible(in *Input) *Hold {
	i := in.Implausible[c.resource]
	if !i.Blocks() || c.notMeasured(in) {
		return nil
	}
	const lifted = ". Lifted when half of a day's samples are plausible"
	if !i.mostly() {
		return c.hold(UsageImplausible, i.count(c.resource, i.AboveLimit).text(" were dropped, up to ").text(i.Told(c.resource)).
			text(". Lifted when 95 % of a day's samples are plausible: ").text(told[OfLimit].fix))
	}
	if 2*i.Zeros > i.Dropped {
		why := unmeasured[c.resource]
		return c.hold(UsageImplausible, i.count(c.resource, i.Zeros).text(why.cause).text(lifted).text(": ").text(why.fix))
	}
	why := i.count(c.resource, i.Dropped).text(" were dropped, up to ").text(i.Told(c.resource)).text(lifted)
	if i.Cause == "" && i.Fix == "" {
		return c.hold(UsageImplausible, why.text(": ").text(told[i.Bound].fix))
	}
	return c.hold(UsageImplausible, why)
}

// tooLittle returns the hold of a resource with too few measurements, or nil.
func (c *chain) tooLittle(in *Input) *Hold {
	points, needed := c.history.Points, c.pointsNeeded()
	switch {
	case c.notMeasured(in):
		i, why := in.Implausible[c.resource], unmeasured[c.resource]
		return c.hold(NoData, sentence("no ").text(c.resource.String()).text(" usage was measured: ").text(string(i.count(c.resource, i.Zeros))).
			text(why.cause).text(". To fix, ").text(why.fix))
	case in.Implausible[c.resource].Blocks():
		return nil // see implausible
	case points == 0:
		return c.hold(NoData, sentence("no ").text(c.resource.String()).text(" usage was measured in the history window"))
	case c.enough():
		return nil
	case c.measured():
		return c.hold(NoData, sentence("no ").text(c.resource.String()).text(" usage was measured recently, so strategy Adaptive has no estimate"))
	case c.in.CountRuns:
		return c.hold(InsufficientData, sentence(nil).count(points).text("/").count(needed).text(" samples and ").
			count(c.runs).text("/").count(FirstRuns).text(" complete runs measured; enough after ").runs(FirstRuns-c.runs))
	}
	// A sample is read after its step has ended. Last may be within a step: steps end at multiples of their length.
	last := time.UnixMilli(c.history.Last.UnixMilli() / c.all.QueryStep.Milliseconds() * c.all.QueryStep.Milliseconds()).UTC()
	ready := last.Add(time.Duration(needed-points)*c.all.QueryStep + time.Minute - 1)
	return c.hold(InsufficientData, sentence(nil).count(points).text("/").count(needed).
		text(" samples measured; enough after ").at(ready).text(" if none is missing"))
}

// runs writes how many more runs are needed.
func (s sentence) runs(n int) sentence {
	if n == 1 {
		return s.text("1 more run")
	}
	return s.count(n).text(" more runs")
}

// stale returns the hold of a resource whose history is out of date, or nil.
func (c *chain) stale(now time.Time) *Hold {
	if !c.enough() || !c.silent(now) {
		return nil
	}
	age := now.Sub(c.history.Last)
	return c.hold(StaleData, sentence("last sample at ").at(c.history.Last).text(", ").duration(age).
		text(" ago; attune applies no recommendation from data older than ").duration(c.all.StaleAfter()))
}

// asleep returns the hold of a resource without a running pod for some time, or nil.
func (c *chain) asleep(now time.Time) *Hold {
	if !c.enough() || !c.outdated(now) || !c.in.NotRunning {
		return nil
	}
	return c.hold(NotRunning, sentence("last ran at ").at(c.history.Last).text(", ").duration(now.Sub(c.history.Last)).
		text(" ago; used for new pods only"))
}

// beyondMaximum returns the hold of a resource whose floor is above the policy's maximum, or nil. Applying the maximum
// would use a size that led to an OOM kill, or is too small for the peak.
func (c *chain) beyondMaximum() *Hold {
	highest := c.learned.Amount
	if c.limitRaisesRequest() {
		highest = max(highest, c.limitFloor)
	}
	if c.settings.MaxAllowed == 0 || highest <= c.settings.MaxAllowed {
		return nil
	}
	return c.hold(FloorAboveMaximum, sentence("maxAllowed ").amount(c.resource, c.settings.MaxAllowed).
		text(" is below ").floorSource(c))
}

func (c *chain) hold(reason Reason, message sentence) *Hold {
	return &Hold{Resource: c.resource, Reason: reason, Message: string(message)}
}
