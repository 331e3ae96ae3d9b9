package adaptive

import (
	"math"
	"time"

	"attune.io/attune/recommender"
)

const (
	// evidenceHalves is the half-life of evidence: a deploy of a week ago is forgotten.
	evidenceHalves = 72.0 // hours
	// mostStep is the longest time that one sample stands for.
	mostStep = 10 * time.Minute
	// follow is the part below which a rule's value in force follows the rule down.
	follow = 0.9
)

// counters are what is remembered of one resource: the most of recent hours and days, and how often usage was beyond each
// rule times each margin.
type counters struct {
	terms *terms
	// hourMost and dayMost are the most of hours and of days, the newest last; NaN: not measured.
	hourMost [24]float64
	dayMost  [14]float64
	ever     float64
	p95      histogram
	// hourEnd is the end of the hour that is under way, most its most so far; NaN: nothing yet.
	hourEnd time.Time
	most    float64
	// last is the time of the last sample.
	last  time.Time
	known bool
	// base is each rule's value in force, against which usage is counted; based: there is one, after the first hour.
	base  []float64
	based bool
	// over is decayed evidence in hours by rule, and by how many margins the usage was beyond.
	over [][marginCount + 1]float64
	// hours of evidence, decayed; inHour is what the hour under way has of it.
	hours, inHour float64
}

func newCounters(t *terms) counters {
	c := counters{terms: t, most: math.NaN(), base: make([]float64, len(t.rules)), over: make([][marginCount + 1]float64, len(t.rules))}
	for i := range c.hourMost {
		c.hourMost[i] = math.NaN()
	}
	for i := range c.dayMost {
		c.dayMost[i] = math.NaN()
	}
	return c
}

// Observe a sample of usage, in millicores or bytes. Samples come in order of time; one at a whole hour belongs to the hour
// that ends with it. It is counted against the values in force before it can change them. The result is whether it is the
// most of its hour so far.
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
		c.inHour += min(at.Sub(c.last), mostStep).Hours()
	}
	higher = !(used <= c.most)
	c.most, c.ever = recommender.Highest(c.most, used), max(c.ever, used)
	c.p95.add(used)
	c.last, c.known = at, true
	return higher
}

// count usage against each rule, for so many hours.
func (c *counters) count(used, hours float64) {
	for r, base := range c.base {
		beyond := 0
		for beyond < marginCount && used > base*c.terms.margins[beyond] {
			beyond++
		}
		c.over[r][beyond] += hours
	}
}

// closeUntil closes the hours that end at a time or before.
func (c *counters) closeUntil(now time.Time) {
	for !c.hourEnd.IsZero() && !c.hourEnd.After(now) {
		c.close()
		c.hourEnd = c.hourEnd.Add(time.Hour)
	}
}

// close the hour under way.
func (c *counters) close() {
	measured := !math.IsNaN(c.most)
	if c.terms.byHour && measured && c.based {
		c.count(c.most, 1)
		c.inHour = 1
	}
	fade := math.Exp2(-1 / evidenceHalves)
	for r := range c.over {
		for k := range c.over[r] {
			c.over[r][k] *= fade
		}
	}
	c.hours = c.hours*fade + c.inHour
	c.p95.fade()
	c.turn()
	c.most, c.inHour = math.NaN(), 0
	for r := range c.base {
		if v := c.value(r); v > c.base[r] || v < follow*c.base[r] {
			c.base[r] = v
		}
	}
	c.based = c.based || measured
}

// turn moves the hour under way into the rings of hours and days.
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

// recent is the most of a part of a ring and of the hour under way. Where nothing of it was measured it is the most ever.
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

// percentile is the upper edge of the bucket in which the part q of the weight is reached.
func (h *histogram) percentile(q float64) float64 {
	sum := 0.0
	for i, w := range h.weights {
		if sum += w; w > 0 && sum >= q*h.total*(1-1e-12) {
			return smallest * math.Pow(bucketStep, float64(i))
		}
	}
	return 0
}
