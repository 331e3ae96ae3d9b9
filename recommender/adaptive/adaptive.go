// Package adaptive estimates the size of a container from its own past. It has a few rules (the maximum of the last
// hours or days, a percentile) and a grid of margins, and takes the pair that would have been cheapest. The cost of a
// pair is the amount that it reserves, plus a price for each time that usage would have exceeded it. How often that
// happened is counted on this container; a prior is used until there is evidence.
//
// It is Autopilot's idea of an ensemble with priced members (EuroSys 2020), with counters instead of models. One
// parameter, the risk, divides the price of shortage.
//
// Of replays the history of a container, step by step, through one Estimator for each resource (past.go). An Estimator
// receives usage in order of time (Observe). It decides a size each hour, and at new maxima within the hour (Decide).
// The result depends only on the history and the settings: there is no state that could be lost. Start reading with Of,
// then Estimator.Decide, counters.go, and terms.go, which has every constant.
package adaptive

import (
	"math"
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// Estimator sizes one resource of one container. Amounts are millicores or bytes.
type Estimator struct {
	// price of shortage, and the part of time or hours with shortage that is always tolerated.
	price, tolerated float64
	// hold is how long a wish is kept: a shorter trough is not followed.
	hold time.Duration
	counters
	// inForce is the last decided size; 0 before the first decision.
	inForce float64
	// rule and margin are the chosen pair.
	rule, margin int
	chosen       bool
	// wishes of the last decisions, newest last.
	wishes []wish
}

// wish is the wanted size at a time.
type wish struct {
	at   time.Time
	size float64
}

// New returns the estimator of a resource.
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

// Decide returns the wanted size from now on, and the choice behind it; the zero value without any usage. It raises the
// size at once. It lowers the size to the maximum of recent wishes, if the caller allows it.
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

// choose takes the cheapest pair. The current pair stays unless another is clearly cheaper.
func (e *Estimator) choose() recommender.Estimate {
	best, rule, margin := math.Inf(1), 0, 0
	for r := range e.terms.rules {
		above, value := 0.0, e.value(r)
		for k := len(e.terms.margins) - 1; k >= 0; k-- {
			above += e.evidence.over[r][k+1]
			if cost := e.cost(value, r, k, above); cost < best {
				best, rule, margin = cost, r, k
			}
		}
	}
	if !e.chosen || best < (1-switchPast)*e.cost(e.value(e.rule), e.rule, e.margin, e.evidence.above(e.rule, e.margin)) {
		e.rule, e.margin, e.chosen = rule, margin, true
	}
	return recommender.Estimate{
		Rule: e.terms.rules[e.rule].name, Value: recommender.Usage(max(e.base[e.rule], e.value(e.rule))), Margin: e.terms.margins[e.margin],
		Short: min(1, e.short(e.rule, e.margin, e.evidence.above(e.rule, e.margin))), Hours: e.evidence.hours,
	}
}

// switchPast is how much cheaper another pair must be: 5 %.
const switchPast = 0.05

// short is the expected part of hours or of time with shortage if a pair is chosen. It combines the container's own
// evidence with the prior, weighted with terms.weight hours, and multiplies by terms.hidden.
func (e *Estimator) short(r, k int, above float64) float64 {
	return e.terms.hidden * (above + e.terms.weight*e.terms.rules[r].prior[k]) / (e.evidence.hours + e.terms.weight)
}

// cost of a pair per hour, in core-hours or GiB-hours, if its rule has this value.
func (e *Estimator) cost(value float64, r, k int, above float64) float64 {
	short := e.short(r, k, above)
	cost := value*e.terms.margins[k]/e.terms.unit + e.price*short
	if short > e.tolerated {
		cost += 1e6 * short
	}
	return cost
}
