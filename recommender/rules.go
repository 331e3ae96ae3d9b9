package recommender

import (
	"cmp"
	"math"
)

// rule is one step of the computation, for CPU and memory alike. Rules are called by name and not through a table
// of functions: so the compiler can see that no rule keeps the chain, and no input is copied to the heap.
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
	ruleCount
)

var ruleNames = [ruleCount]string{"percentile", "margin", "burst", "confidence", "floor", "bounds", "adaptive"}

// The rules of each strategy. The strategy Node sizes a pod by its node, and shows what Workload would do beside it.
var (
	workloadRules = [...]rule{percentileRule, marginRule, burstRule, confidenceRule, floorRule, boundsRule}
	adaptiveRules = [...]rule{adaptiveRule, floorRule, boundsRule}
)

// apply is all that a decision needs.
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
	default:
		return bounds(c, before)
	}
}

// why writes the reason from what apply left in the chain. It is called only for a trace.
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
	default:
		return whyBounds(c, s, before, after)
	}
}

// burstRatio of peak to 95th percentile above which usage counts as bursty; the noise keeps one of
// exactly three, computed in floating point, from counting.
const (
	burstRatio = 3
	noise      = 1e-9
)

// noHour says that no hour of the day is busier than the whole history.
const noHour = -1

// chain is the computation for one resource: what the rules read, and the figures that they leave.
type chain struct {
	resource Resource
	history  *ResourceProfile
	all      *Settings
	settings *ResourceSettings
	original Allocation
	learned  Floor
	// killed is what OOM kills taught of the memory limit; limitFloor is what that limit must not be below.
	killed     Amount
	limitFloor Amount
	// ceiling is what no memory limit is raised above; 0: none.
	ceiling    Amount
	confidence float64
	// estimate is zero but with the strategy Adaptive.
	estimate Estimate
	// notRunning and countsRuns are the input's, runs the whole ones of its profile.
	notRunning, countsRuns bool
	runs                   int

	// What follows is what the rules leave for their reasons: usage is the percentile before rounding, which the margin is
	// taken from; hour is the busiest.
	usage Usage
	hour  int
	p95   Usage
	ratio float64
}

// chainOf one resource. It is returned, and not written through a pointer, so that the input stays on the stack.
func chainOf(in *Input, resource Resource) chain {
	c := chain{
		resource: resource,
		history:  &in.Profile.Of[resource],
		all:      &in.Settings,
		settings: &in.Settings.Of[resource],
		original: in.Original[resource].defaulted(),
		learned:  in.Floors[resource],

		notRunning: in.NotRunning, countsRuns: in.CountRuns,
		runs: in.Profile.WholeRuns(in.Settings.QueryStep, in.Now),
	}
	c.confidence = c.history.confidence(c.all)
	if in.Estimates != nil {
		c.estimate = in.Estimates[resource]
	}
	if resource == Memory {
		c.killed = in.Killed.Amount
		if c.settings.LimitsFollow {
			c.ceiling = max(MemoryCeiling(c.original, c.learned, c.settings.MinAllowed), MemoryCeiling(c.original, in.Killed, c.settings.MinAllowed))
		}
		c.limitFloor = Brake(memoryLimitFloor(c.history.Peak, max(c.learned.Amount, c.killed)), c.ceiling)
	}
	return c
}

// target applies the rules; it is zero where the history is too short.
func (c *chain) target(t *trace) Allocation {
	if !c.enough() {
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
	return Allocation{Request: request, Limit: c.limit(request)}
}

// limit is the limit that goes with the request. A pinned request has already been raised to the limit's
// floor, or is held because it must not be.
func (c *chain) limit(request Amount) Amount {
	switch {
	case !c.settings.LimitsFollow:
		return c.original.Limit
	case c.original.pinned():
		return request
	default:
		return Brake(LimitFor(c.resource, c.original, request, c.limitFloor), c.ceiling)
	}
}

// percentile is the highest of the configured percentile of the whole history and of its 24 hours of
// the day, so that the busiest hour is covered.
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

// margin is the configured headroom above the percentile.
func margin(c *chain, _ Amount) Amount {
	return (c.usage * Usage(100+c.settings.OverheadPercent) / 100).RoundUp()
}

// burst makes room for peaks that a percentile cannot see: 1 + sensitivity × log2(peak / p95) where the
// peak is more than three times the 95th percentile of the whole history, whatever percentile is
// configured.
func burst(c *chain, before Amount) Amount {
	c.p95 = quantile(c.history.Overall, 0.95)
	c.ratio = float64(c.history.Peak / cmp.Or(c.p95, 1)) // finite also for an idle container
	if !c.bursty() {
		return before
	}
	return before.scaled(c.burstFactor())
}

func (c *chain) bursty() bool {
	return c.settings.BurstSensitivity > 0 && c.ratio > burstRatio*(1+noise)
}

func (c *chain) burstFactor() float64 { return 1 + c.settings.BurstSensitivity*math.Log2(c.ratio) }

// confidence widens the answer while history is short.
func confidence(c *chain, before Amount) Amount { return before.scaled(caution(c.confidence)) }

// floor keeps off what is known to harm: memory below its own peak, and either resource below what harm taught. An
// OOM kill teaches about the memory limit, where there is one: the request follows only where it equals the limit.
func floor(c *chain, before Amount) Amount { return max(before, c.least()) }

// least is the greatest amount below which the request must not be: the learned floor, the peak of memory, and the
// limit's floor where request and limit are equal. The strategy Adaptive weighs the peak by itself.
func (c *chain) least() Amount {
	least := c.learned.Amount
	if c.resource == Memory && !c.all.Adapts() {
		least = max(least, c.history.Peak.RoundUp())
	}
	if c.limitRaisesRequest() {
		least = max(least, c.limitFloor)
	}
	return least
}

// limitRaisesRequest: the request is the memory limit, so the limit's floor is its floor too.
func (c *chain) limitRaisesRequest() bool {
	return c.resource == Memory && c.settings.LimitsFollow && c.original.pinned()
}

// bounds clamps to what the policy allows and to a limit that is left alone, and makes a whole amount of
// it. A request that is its limit, which is left alone, stays equal to it.
func bounds(c *chain, before Amount) Amount {
	after := c.clamped(before)
	if c.original.pinned() && after == c.fixedLimit() {
		return after
	}
	return c.resource.WholeWithin(after, c.settings.MinAllowed, c.highest())
}

// clamped is the amount within the bounds, exactly. It is never zero, which would mean not set.
func (c *chain) clamped(a Amount) Amount {
	return Brake(max(a, c.settings.MinAllowed, 1), c.highest())
}

// highest is the lesser of the policy's maximum and the highest limit, or 0.
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

// fixedLimit is the limit that is not ours to change, or 0.
func (c *chain) fixedLimit() Amount {
	if c.settings.LimitsFollow {
		return 0
	}
	return c.original.Limit
}
