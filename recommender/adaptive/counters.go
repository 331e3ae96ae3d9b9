package adaptive

import (
	"math"
	"time"

	"attune.io/attune/recommender"
)

const (
	// evidenceHalves is the half-life of evidence, so that old deployments are forgotten: after a week a fifth is left.
	evidenceHalves = 72.0 // hours
	// mostStep is the longest time that one sample represents.
	mostStep = 10 * time.Minute
	// follow is the ratio below which a rule's value in force is lowered.
	follow = 0.9
)

// counters are the state of one resource: the maxima of recent hours and days, and how often usage exceeded each rule
// times each margin.
type counters struct {
	terms *terms
	// hourMost and dayMost are the maxima of hours and of days, newest last; NaN: not measured.
	hourMost [24]float64
	dayMost  [14]float64
	ever     float64
	p95      histogram
	// hourEnd is the end of the current hour, most its maximum so far; NaN: no sample yet.
	hourEnd time.Time
	most    float64
	// last is the time of the last sample.
	last  time.Time
	known bool
	// base is each rule's value in force, which usage is compared with. based is true after the first hour, when base
	// has values.
	base     []float64
	based    bool
	evidence evidence
}

// evidence is how often usage exceeded each rule times each margin. It decays, so that old deployments are forgotten.
type evidence struct {
	// over is in hours, by rule and by the number of margins that the usage exceeded.
	over [][marginCount + 1]float64
	// hours is the evidence of the closed hours, inHour that of the current one.
	hours, inHour float64
}

// endHour adds the current hour and lets all evidence decay.
func (e *evidence) endHour() {
	fade := math.Exp2(-1 / evidenceHalves)
	for r := range e.over {
		for k := range e.over[r] {
			e.over[r][k] *= fade
		}
	}
	e.hours, e.inHour = e.hours*fade+e.inHour, 0
}

// above is how often usage exceeded a rule times a margin, in decayed hours.
func (e *evidence) above(r, k int) (sum float64) {
	for _, n := range e.over[r][k+1:] {
		sum += n
	}
	return sum
}

func newCounters(t *terms) counters {
	c := counters{terms: t, most: math.NaN(), base: make([]float64, len(t.rules)), evidence: evidence{over: make([][marginCount + 1]float64, len(t.rules))}}
	for i := range c.hourMost {
		c.hourMost[i] = math.NaN()
	}
	for i := range c.dayMost {
		c.dayMost[i] = math.NaN()
	}
	return c
}

// Observe a sample of usage, in millicores or bytes. Samples come in order of time; a sample at a whole hour belongs to
// the hour that ends then. It is compared with the values in force before it can change them. The result says whether
// it is the maximum of its hour so far.
func (c *counters) Observe(at time.Time, used float64) (higher bool) {
	if math.IsNaN(used) {
		return false
	}
	c.closeUntil(at.Add(-1))
	if c.hourEnd.IsZero() {
		c.hourEnd = at.Add(time.Hour - 1).Truncate(time.Hour)
	}
	if !c.terms.byHour && c.based {
		c.count(used, min(at.Sub(c.last), mostStep).Hours())
		c.evidence.inHour += min(at.Sub(c.last), mostStep).Hours()
	}
	higher = !(used <= c.most)
	c.most, c.ever = recommender.Highest(c.most, used), max(c.ever, used)
	c.p95.add(used)
	c.last, c.known = at, true
	return higher
}

// count compares usage with each rule, and adds that many hours of evidence.
func (c *counters) count(used, hours float64) {
	for r, base := range c.base {
		beyond := 0
		for beyond < marginCount && used > base*c.terms.margins[beyond] {
			beyond++
		}
		c.evidence.over[r][beyond] += hours
	}
}

// closeUntil closes the hours that end at or before a time.
func (c *counters) closeUntil(now time.Time) {
	for !c.hourEnd.IsZero() && !c.hourEnd.After(now) {
		c.close()
		c.hourEnd = c.hourEnd.Add(time.Hour)
	}
}

// close the current hour.
func (c *counters) close() {
	measured := !math.IsNaN(c.most)
	if c.terms.byHour && measured && c.based {
		c.count(c.most, 1)
		c.evidence.inHour = 1
	}
	c.evidence.endHour()
	c.p95.fade()
	c.turn()
	c.most = math.NaN()
	for r := range c.base {
		if v := c.value(r); v > c.base[r] || v < follow*c.base[r] {
			c.base[r] = v
		}
	}
	c.based = c.based || measured
}

// turn moves the current hour into the rings of hours and days.
func (c *counters) turn() {
	copy(c.hourMost[:], c.hourMost[1:])
	c.hourMost[len(c.hourMost)-1] = c.most
	if c.hourEnd.Add(-time.Hour).Truncate(24*time.Hour) != c.hourEnd.Add(-2*time.Hour).Truncate(24*time.Hour) {
		copy(c.dayMost[:], c.dayMost[1:])
		c.dayMost[len(c.dayMost)-1] = math.NaN()
	}
	today := &c.dayMost[len(c.dayMost)-1]
	*today = recommender.Highest(*today, c.most)
}

// value of a rule now.
func (c *counters) value(r int) float64 {
	switch of := c.terms.rules[r]; {
	case of.percentile:
		return c.p95.percentile(0.95)
	case of.hours == 0:
		return c.ever
	case of.hours > len(c.hourMost):
		return c.recent(c.dayMost[:])
	default:
		return c.recent(c.hourMost[len(c.hourMost)-of.hours:])
	}
}

// recent is the maximum of a part of a ring and of the current hour. Without measurements there it is the maximum ever.
func (c *counters) recent(ring []float64) float64 {
	most := c.most
	for _, v := range ring {
		most = recommender.Highest(most, v)
	}
	if math.IsNaN(most) {
		return c.ever
	}
	return most
}

// histogram of usage, weighted by usage itself: buckets 5 % wide, from a millicore, half-life 12 hours.
type histogram struct {
	weights []float64
	total   float64
}

const (
	smallest   = 1.0
	bucketStep = 1.05
	p95Halves  = 12.0 // hours
)

func (h *histogram) add(used float64) {
	i := 0
	if used > smallest {
		i = int(math.Ceil(math.Log(used/smallest)/math.Log(bucketStep) - 1e-9))
	}
	if missing := i + 1 - len(h.weights); missing > 0 {
		h.weights = append(h.weights, make([]float64, missing)...)
	}
	h.weights[i] += used
	h.total += used
}

// fade by one hour.
func (h *histogram) fade() {
	f := math.Exp2(-1 / p95Halves)
	for i := range h.weights {
		h.weights[i] *= f
	}
	h.total *= f
}

// percentile is the upper edge of the bucket that reaches the fraction q of the weight.
func (h *histogram) percentile(q float64) float64 {
	sum := 0.0
	for i, w := range h.weights {
		if sum += w; w > 0 && sum >= q*h.total*(1-1e-12) {
			return smallest * math.Pow(bucketStep, float64(i))
		}
	}
	return 0
}
