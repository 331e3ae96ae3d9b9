package recommender

import "math"

// rule is one step of the computation, for CPU and memory alike. Rules are called by name, not through a table of
// functions. So the compiler can see that no rule keeps the chain, and no input is copied to the heap.
type rule uint8

// The algorithm, in order.
const (
	percentileRule rule = iota
	marginRule
	burstRule
	confidenceRule
	floorRule
	boundsRule
	adaptiveRule
	keptRule
	ruleCount
)

var ruleNames = [ruleCount]string{"percentile", "margin", "burst", "confidence", "floor", "bounds", "adaptive", "hpa"}

// The rules of each strategy. The strategy Node sizes a pod by its node, and shows the result of Workload for
// comparison.
var (
	workloadRules = [...]rule{percentileRule, marginRule, burstRule, confidenceRule, floorRule, boundsRule}
	adaptiveRules = [...]rule{adaptiveRule, floorRule, boundsRule}
)

// apply computes the amount after the rule. It is all that a decision needs.
func (r rule) apply(c *chain, before Amount) (after Amount) {
	switch r {
	case percentileRule:
		return percentile(c, before)
	case marginRule:
		return margin(c, before)
	case burstRule:
		return burst(c, before)
	case confidenceRule:
		return confidence(c, before)
	case floorRule:
		return floor(c, before)
	case adaptiveRule:
		return adapted(c, before)
	case keptRule:
		return kept(c, before)
	default:
		return bounds(c, before)
	}
}

// why writes the reason from the figures that apply left in the chain. It is called only for a trace.
func (r rule) why(c *chain, s sentence, before, after Amount) sentence {
	switch r {
	case percentileRule:
		return whyPercentile(c, s, before, after)
	case marginRule:
		return whyMargin(c, s, before, after)
	case burstRule:
		return whyBurst(c, s, before, after)
	case confidenceRule:
		return whyConfidence(c, s, before, after)
	case floorRule:
		return whyFloor(c, s, before, after)
	case adaptiveRule:
		return whyAdapted(c, s, before, after)
	case keptRule:
		return whyKept(c, s, before, after)
	default:
		return whyBounds(c, s, before, after)
	}
}

// burstRatio is the ratio of peak to 95th percentile above which usage counts as bursty. noise keeps a ratio of exactly
// three, computed in floating point, from counting. CPU with a peak above idlePeak (millicores) does something.
const (
	burstRatio = 3
	noise      = 1e-9
	idlePeak   = 10
)

// idleBelow is the 95th percentile below which a container is idle, in millicores or bytes. A ratio to less than that
// means nothing.
var idleBelow = [...]Usage{CPU: 1, Memory: Usage(mebibyte)}

// noHour says that no hour of the day is busier than the whole history.
const noHour = -1

// chain is the computation for one resource: the input of the rules, and the figures that they leave.
type chain struct {
	resource Resource
	history  *ResourceProfile
	all      *Settings
	settings *ResourceSettings
	original Allocation
	learned  Floor
	// killed is the minimum of the memory limit learned from OOM kills. limitFloor is the minimum of that limit, and
	// for CPU 1.1 times the peak, below which no limit is lowered.
	killed     Amount
	limitFloor Amount
	// ceiling bounds raises of a memory limit; 0: no ceiling.
	ceiling Amount
	// followed are the limits that usage filled to the same share; nil: it does not follow its limit.
	followed   []LimitUsage
	confidence float64
	// estimate is zero except with the strategy Adaptive.
	estimate Estimate
	// kept is the range in which autoscalers keep the number of replicas; nil: none applies.
	kept *Kept
	// in is the input. runs counts the whole runs of its profile.
	in   *Input
	runs int

	// The fields below are left by the rules for their reasons. usage is the percentile before rounding, to which the
	// margin applies; hour is the busiest.
	usage Usage
	hour  int
	p95   Usage
	ratio float64
	// idle is the 99.9th percentile of CPU that is idle most of the time, which no other percentile sees; 0: not idle.
	idle Amount
}

// chainOf one resource. It is returned by value, so that the input stays on the stack.
func chainOf(in *Input, resource Resource) chain {
	c := chain{
		resource: resource,
		history:  &in.Profile.Of[resource],
		all:      &in.Settings,
		settings: &in.Settings.Of[resource],
		original: in.Original[resource].defaulted(),
		learned:  in.Floors[resource],
		kept:     in.Kept[resource],

		in: in, runs: in.Profile.WholeRuns(in.Settings.QueryStep, in.Now),
	}
	c.confidence = c.history.confidence(c.all)
	if in.Estimates != nil {
		c.estimate = in.Estimates[resource]
	}
	if resource == Memory {
		c.killed = in.Killed.Amount
		if c.settings.LimitsFollow {
			c.ceiling = max(MemoryCeiling(c.original, c.learned, c.settings.MinAllowed), MemoryCeiling(c.original, in.Killed, c.settings.MinAllowed))
			if kept := FollowedLimit(in.Limits, in.Killed.Taught); kept > 0 {
				c.followed = in.Limits
				c.ceiling = min(c.ceiling, max(kept, c.original.Limit, Memory.Whole(in.Killed.Taught), c.settings.MinAllowed))
			}
		}
		c.limitFloor = Brake(memoryLimitFloor(c.history.Peak, max(c.learned.Amount, c.killed)), c.ceiling)
	} else {
		c.limitFloor = (max(c.history.Peak, in.Profile.Starts) * limitHeadroom).RoundUp()
	}
	return c
}

// target applies the rules; it is zero if the history is too short, or the policy leaves the resource as it is.
func (c *chain) target(t *trace) Allocation {
	if !c.enough() || c.settings.Uncontrolled != "" {
		return Allocation{}
	}
	var request Amount
	rules := workloadRules[:]
	if c.all.Adapts() {
		rules = adaptiveRules[:]
	}
	for _, r := range rules {
		before := request
		request = r.apply(c, before)
		t.add(c, r, before, request)
	}
	if c.kept != nil {
		before := request
		request = keptRule.apply(c, before)
		t.add(c, keptRule, before, request)
	}
	return Allocation{Request: request, Limit: c.limit(request)}
}

// limit is the limit for the request. A pinned request has already been raised to the limit's floor, or is held because
// it must not be.
func (c *chain) limit(request Amount) Amount {
	switch {
	case !c.settings.LimitsFollow:
		return c.original.Limit
	case c.settings.Limits.Remove:
		return 0
	case c.settings.Limits.Sets():
		return raiseToLeast(c.original.Limit, c.settings.Limits.Limit(c.original, c.original.Limit, request, c.limitFloor), LeastCPULimit)
	case c.original.pinned():
		return request
	}
	to := Allocation{Request: request, Limit: Brake(LimitFor(c.resource, c.original, request, c.limitFloor), c.ceiling)}
	learned := c.killed
	if c.resource == Memory {
		learned = max(learned, c.learned.Amount)
	}
	to = c.resource.CapLimit(c.original, to, c.settings.limitMost(Memory.Whole(learned)))
	return raiseToLeast(c.original.Limit, to.Limit, least[c.resource].Limit)
}

// keptLimit is the CPU limit below which usage lowers none; 0 if ratio and maxAllowed set none below it, or the limit
// does not follow.
func (c *chain) keptLimit(request Amount) Amount {
	if request == 0 || !c.settings.LimitsFollow || c.original.Limit == 0 {
		return 0
	}
	if rule := c.settings.Limits; rule.Sets() {
		if c.limitFloor <= rule.Limit(c.original, c.original.Limit, request, 0) {
			return 0
		}
		return c.limitFloor
	}
	if c.original.pinned() {
		return 0
	}
	plain := Allocation{Request: request, Limit: LimitFor(CPU, c.original, request, 0)}
	if c.limitFloor <= CPU.CapLimit(c.original, plain, c.settings.MaxAllowed).Limit {
		return 0
	}
	return c.limitFloor
}

// percentile is the highest of the configured percentile of the whole history and of its 24 hours of the day, so that
// the busiest hour is covered.
func percentile(c *chain, _ Amount) Amount {
	c.usage, c.hour = c.history.busiest(float64(c.settings.Percentile) / 100)
	return c.usage.RoundUp()
}

func (p *ResourceProfile) busiest(q float64) (Usage, int) {
	highest, busiest := quantile(p.Overall, q), noHour
	for hour, values := range p.Hours {
		if u := quantile(values, q); u > highest {
			highest, busiest = u, hour
		}
	}
	return highest, busiest
}

func quantile(d Distribution, q float64) Usage {
	if d == nil {
		return 0
	}
	return d.Quantile(q)
}

// margin is the percentile with the configured headroom.
func margin(c *chain, _ Amount) Amount {
	return (c.usage * Usage(100+c.settings.OverheadPercent) / 100).RoundUp()
}

// burst makes room for peaks that a percentile does not show: 1 + sensitivity × log2(peak / p95), if the peak is more
// than three times the 95th percentile of the whole history. This holds for any configured percentile. Of an idle
// container the peak is compared with idleBelow.
func burst(c *chain, before Amount) Amount {
	c.p95 = quantile(c.history.Overall, 0.95)
	c.ratio = float64(c.history.Peak / max(c.p95, idleBelow[c.resource]))
	if c.resource == CPU && c.p95 < idleBelow[CPU] && c.history.Peak > idlePeak {
		c.idle = quantile(c.history.Overall, 0.999).RoundUp()
	}
	if !c.bursty() {
		return before
	}
	return before.scaled(c.burstFactor())
}

func (c *chain) bursty() bool {
	return c.settings.BurstSensitivity > 0 && c.ratio > burstRatio*(1+noise)
}

func (c *chain) burstFactor() float64 { return 1 + c.settings.BurstSensitivity*math.Log2(c.ratio) }

// confidence raises the amount while history is short.
func confidence(c *chain, before Amount) Amount { return before.scaled(caution(c.confidence)) }

// floor prevents known regressions: memory below its own peak, and either resource below its learned minimum. For a
// container with a memory limit, an OOM kill raises the minimum of the limit. The request follows only if request and
// limit are equal.
func floor(c *chain, before Amount) Amount { return max(before, c.least()) }

// least is the minimum of the request: the learned floor, the bursts of idle CPU, the peak of memory, and the limit's
// floor if request and limit are equal. The strategy Adaptive already includes bursts and peak in its estimate.
func (c *chain) least() Amount {
	least := max(c.learned.Amount, c.idle)
	if c.resource == Memory && !c.all.Adapts() {
		least = max(least, c.history.Peak.RoundUp())
	}
	if c.limitRaisesRequest() {
		least = max(least, c.limitFloor)
	}
	return least
}

// limitRaisesRequest reports whether request and memory limit are equal, so that the limit's floor applies to the
// request too.
func (c *chain) limitRaisesRequest() bool {
	return c.resource == Memory && c.settings.LimitsFollow && c.original.pinned()
}

// bounds clamps to the policy's bounds and to a limit that does not change, and rounds to a whole amount. A request
// equal to such a limit stays equal to it.
func bounds(c *chain, before Amount) Amount {
	after := c.clamped(before)
	if c.original.pinned() && after == c.fixedLimit() {
		return after
	}
	return c.resource.WholeWithin(after, c.settings.MinAllowed, c.highest())
}

// clamped is the amount within the bounds, exactly. It is at least the smallest size (RaiseToLeast) where the template
// has a request, if maxAllowed permits that, and never zero, which would mean not set.
func (c *chain) clamped(a Amount) Amount {
	to := Allocation{Request: max(a, c.settings.MinAllowed, 1)}
	if c.settings.LimitsFollow && c.original.pinned() {
		to.Limit = to.Request
	}
	if c.original.Request > 0 {
		to = c.resource.RaiseToLeast(c.original, to)
	}
	return Brake(to.Request, c.highest())
}

// highest is the lower of the policy's maximum and the highest limit, or 0.
func (c *chain) highest() Amount {
	most, limit := c.settings.MaxAllowed, c.fixedLimit()
	if c.ceiling > 0 {
		limit = highestRequest(c.original, c.ceiling)
	}
	if most == 0 || limit == 0 {
		return max(most, limit)
	}
	return min(most, limit)
}

// fixedLimit is the limit that attune must not change, or 0.
func (c *chain) fixedLimit() Amount {
	if c.settings.LimitsFollow {
		return 0
	}
	return c.original.Limit
}
