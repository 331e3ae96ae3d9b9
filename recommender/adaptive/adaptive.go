// Package adaptive estimates the size of a container from its own past: a handful of rules (the most of the last hours, of
// the last days, a percentile) times a grid of margins, of which it takes the pair that would have been cheapest. What a
// pair costs is what it reserves, and a price for each time that usage would have passed it; how often that was is
// counted on this container, and a prior stands in until there is evidence.
//
// It is Autopilot's idea of an ensemble whose members are priced (EuroSys 2020), with counters in the place of models.
// One knob, the risk, divides the price of being short.
//
// An Estimator is fed samples in order of time (Observe) and asked for a size (Decide). It keeps about a kilobyte,
// however long the past is. It is pure: it reads no clock. Start reading with Decide, then counters.go.
package adaptive

import (
	"math"
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// Risk is how much shortage is accepted to reserve less: 1 is Medium, greater accepts more.
type Risk float64

// Choice is the pair of a rule and a margin that was taken, and why.
type Choice struct {
	// Rule is its name, such as "max of 24 h", Value what it says, in cores or bytes.
	Rule  string
	Value float64
	// Margin is the factor on it.
	Margin float64
	// Short is the expected part of hours or time that is short, after Evidence hours of own past.
	Short, Evidence float64
}

// Estimator sizes one resource of one container. Amounts are cores or bytes.
type Estimator struct {
	terms *terms
	// price of being short, and the part of time or hours that may be short whatever it saves.
	price, tolerated float64
	counters
	// inForce is the size that was decided last; 0: none yet.
	inForce float64
	// pair that is taken: a rule and a margin.
	rule, margin int
	chosen       bool
	// wishes of the last decisions, the newest last.
	wishes []wish
	// killedAt is the last OOM kill, after which at least floor is wanted for a while.
	floor    float64
	killedAt time.Time
}

// wish is what was wanted at a time.
type wish struct {
	at   time.Time
	size float64
}

// New makes the estimator of a resource.
func New(r recommender.Resource, risk Risk) *Estimator {
	t := &cpuTerms
	if r == recommender.Memory {
		t = &memoryTerms
	}
	return &Estimator{terms: t, price: t.price / float64(risk), tolerated: min(1, t.most*max(1, float64(risk))), counters: newCounters(t)}
}

// Moves is when a container was resized last, for the budget that its resources share.
type Moves struct{ last, before time.Time }

// budget is the time within which a container is lowered only where it had less than two resizes.
const budget = 24 * time.Hour

// spent reports whether two resizes were made within the time of the budget.
func (m *Moves) spent(now time.Time) bool { return !m.before.IsZero() && now.Sub(m.before) <= budget }

// Moved notes a resize.
func (m *Moves) Moved(now time.Time) { m.before, m.last = m.last, now }

// InForce is the size that was decided last; 0: none yet.
func (e *Estimator) InForce() float64 { return e.inForce }

// Decide returns the size that is wanted from now on, and the choice behind it; 0 without any usage. It raises at once,
// and lowers to the most of what was wanted lately, as long as the budget of the container allows it.
func (e *Estimator) Decide(now time.Time, moves *Moves) (float64, Choice) {
	e.closeUntil(now)
	if !e.known {
		return 0, Choice{}
	}
	choice := e.choose()
	want := max(e.base[e.rule], e.value(e.rule)) * e.terms.margins[e.margin]
	want = max(want, e.killedFloor(now))
	e.remember(now, want)
	most := e.mostWanted()
	switch lower := e.inForce - most; {
	case e.inForce == 0:
		e.inForce = most
	case want > e.inForce*(1+e.terms.raisePast):
		e.inForce = most
	case lower > e.terms.lowerPast*e.inForce && lower > e.terms.leastMove && !moves.spent(now):
		e.inForce = most
	}
	return e.inForce, choice
}

// remember a wish, and forget those that are older than the hold.
func (e *Estimator) remember(now time.Time, want float64) {
	e.wishes = slices.DeleteFunc(e.wishes, func(w wish) bool { return now.Sub(w.at) >= e.terms.hold })
	e.wishes = append(e.wishes, wish{now, want})
}

func (e *Estimator) mostWanted() (most float64) {
	for _, w := range e.wishes {
		most = max(most, w.size)
	}
	return most
}

// choose the pair that costs least. The one that is in force stays unless another is clearly cheaper.
func (e *Estimator) choose() Choice {
	best, rule, margin := math.Inf(1), 0, 0
	for r := range e.terms.rules {
		above := 0.0
		for k := len(e.terms.margins) - 1; k >= 0; k-- {
			above += e.over[r][k+1]
			if cost := e.cost(r, k, above); cost < best {
				best, rule, margin = cost, r, k
			}
		}
	}
	if !e.chosen || best < (1-switchPast)*e.cost(e.rule, e.margin, e.above(e.rule, e.margin)) {
		e.rule, e.margin, e.chosen = rule, margin, true
	}
	return Choice{
		Rule: e.terms.rules[e.rule].name, Value: e.value(e.rule), Margin: e.terms.margins[e.margin],
		Short: e.short(e.rule, e.margin, e.above(e.rule, e.margin)), Evidence: e.hours,
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

// short is the part of hours or of time that is expected to be short: the container's own evidence, and the prior with
// the weight of terms.prior hours.
func (e *Estimator) short(r, k int, above float64) float64 {
	return (above + e.terms.weight*e.terms.rules[r].prior(e.terms.margins[k])) / (e.hours + e.terms.weight)
}

// cost of a pair for each hour, in core-hours or GiB-hours.
func (e *Estimator) cost(r, k int, above float64) float64 {
	short := e.short(r, k, above)
	cost := e.value(r)*e.terms.margins[k]/e.terms.unit + e.price*short
	if short > e.tolerated {
		cost += 1e6 * short
	}
	return cost
}

// Killed notes that memory went beyond a limit. It counts as usage of the limit, and 20 % more is wanted for a day.
func (e *Estimator) Killed(now time.Time, limit float64) {
	e.Observe(now, limit)
	if bumped := limit * killedMargin; bumped >= e.killedFloor(now) {
		e.floor, e.killedAt = bumped, now
	}
}

const (
	killedMargin = 1.2
	killedFades  = 0.2 // a day
	killedLasts  = 24 * time.Hour
)

func (e *Estimator) killedFloor(now time.Time) float64 {
	age := now.Sub(e.killedAt)
	if e.floor == 0 || age > killedLasts {
		return 0
	}
	return e.floor * (1 - killedFades*age.Hours()/24)
}
