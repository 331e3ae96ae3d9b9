// Package adaptive estimates the size of a container from its own past: a handful of rules (the most of the last hours, of
// the last days, a percentile) times a grid of margins, of which it takes the pair that would have been cheapest. What a
// pair costs is what it reserves, and a price for each time that usage would have passed it; how often that was is
// counted on this container, and a prior stands in until there is evidence.
//
// It is Autopilot's idea of an ensemble whose members are priced (EuroSys 2020), with counters in the place of models.
// One knob, the risk, divides the price of being short.
//
// Of replays the history of a container, step by step, through one Estimator for each resource (past.go). An Estimator is
// fed usage in order of time (Observe) and asked for a size each hour, and at new heights within it (Decide). What it says depends on nothing but the
// history and the settings: there is no state that could be lost. Start reading with Of, then Estimator.Decide,
// counters.go, and terms.go, which has every constant.
package adaptive

import (
	"math"
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// Estimator sizes one resource of one container. Amounts are millicores or bytes.
type Estimator struct {
	// price of being short, and the part of time or hours that may be short whatever it saves.
	price, tolerated float64
	// hold is how long a wish is kept: a trough that is shorter is not followed.
	hold time.Duration
	counters
	// inForce is the size that was decided last; 0: none yet.
	inForce float64
	// pair that is taken: a rule and a margin.
	rule, margin int
	chosen       bool
	// wishes of the last decisions, the newest last.
	wishes []wish
}

// wish is what was wanted at a time.
type wish struct {
	at   time.Time
	size float64
}

// New makes the estimator of a resource.
func New(r recommender.Resource, settings recommender.AdaptiveSettings) *Estimator {
	t := &cpuTerms
	if r == recommender.Memory {
		t = &memoryTerms
	}
	return &Estimator{
		price: t.price / settings.Risk, tolerated: t.most * max(1, settings.Risk),
		hold: max(t.hold, settings.Cadence), counters: newCounters(t),
	}
}

// Decide returns the size that is wanted from now on, and the choice behind it; the zero value without any usage. It
// raises at once, and falls to the most of what was wanted lately, where the caller allows it.
func (e *Estimator) Decide(now time.Time, mayFall bool) recommender.Estimate {
	e.closeUntil(now)
	if !e.known {
		return recommender.Estimate{}
	}
	estimate := e.choose()
	want := float64(estimate.Value) * estimate.Margin
	e.wishes = append(slices.DeleteFunc(e.wishes, func(w wish) bool { return now.Sub(w.at) >= e.hold }), wish{now, want})
	most := 0.0
	for _, w := range e.wishes {
		most = max(most, w.size)
	}
	switch lower := e.inForce - most; {
	case e.inForce == 0, want > e.inForce*(1+e.terms.raisePast), mayFall && lower > e.terms.lowerPast*e.inForce && lower > e.terms.leastMove:
		e.inForce = most
	}
	estimate.Amount, estimate.Wanted = recommender.Usage(e.inForce), recommender.Usage(want)
	return estimate
}

// choose the pair that costs least. The one that is in force stays unless another is clearly cheaper.
func (e *Estimator) choose() recommender.Estimate {
	best, rule, margin := math.Inf(1), 0, 0
	for r := range e.terms.rules {
		above, value := 0.0, e.value(r)
		for k := len(e.terms.margins) - 1; k >= 0; k-- {
			above += e.over[r][k+1]
			if cost := e.cost(value, r, k, above); cost < best {
				best, rule, margin = cost, r, k
			}
		}
	}
	if !e.chosen || best < (1-switchPast)*e.cost(e.value(e.rule), e.rule, e.margin, e.above(e.rule, e.margin)) {
		e.rule, e.margin, e.chosen = rule, margin, true
	}
	return recommender.Estimate{
		Rule: e.terms.rules[e.rule].name, Value: recommender.Usage(max(e.base[e.rule], e.value(e.rule))), Margin: e.terms.margins[e.margin],
		Short: min(1, e.short(e.rule, e.margin, e.above(e.rule, e.margin))), Hours: e.hours,
	}
}

// switchPast is by how much another pair has to be cheaper: 5 %.
const switchPast = 0.05

// above is how often usage was beyond a rule times a margin, in decayed hours.
func (e *Estimator) above(r, k int) (sum float64) {
	for _, n := range e.over[r][k+1:] {
		sum += n
	}
	return sum
}

// short is the part of hours or of time that is expected to be short where a pair is chosen: the container's own evidence, and
// the prior with the weight of terms.prior hours, times what the choice hides.
func (e *Estimator) short(r, k int, above float64) float64 {
	return e.terms.hidden * (above + e.terms.weight*e.terms.rules[r].prior[k]) / (e.hours + e.terms.weight)
}

// cost of a pair for each hour, in core-hours or GiB-hours, where its rule says value.
func (e *Estimator) cost(value float64, r, k int, above float64) float64 {
	short := e.short(r, k, above)
	cost := value*e.terms.margins[k]/e.terms.unit + e.price*short
	if short > e.tolerated {
		cost += 1e6 * short
	}
	return cost
}
