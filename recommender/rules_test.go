package recommender

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// at is a distribution with one value.
type at Usage

func (a at) Quantile(float64) Usage { return Usage(a) }
func (a at) Count() int             { return 1 }

func newChain(resource Resource) *chain {
	return &chain{resource: resource, history: &ResourceProfile{}, all: &Settings{}, settings: &ResourceSettings{}, in: &Input{}}
}

func TestPercentileTakesTheBusiestHour(t *testing.T) {
	c := newChain(CPU)
	c.history.Overall = at(100)
	assert.Equal(t, Amount(100), percentile(c, 0))
	assert.Equal(t, noHour, c.hour)

	c.history.Hours[3], c.history.Hours[14] = at(99), at(200.4)
	assert.Equal(t, Amount(201), percentile(c, 0))
	assert.Equal(t, 14, c.hour)
	assert.InDelta(t, 200.4, float64(c.usage), 1e-9, "the fraction is kept for the margin")
}

func TestPercentileIsTheConfiguredOne(t *testing.T) {
	c := newChain(CPU)
	values := make(sorted, 101)
	for i := range values {
		values[i] = Usage(i)
	}
	c.history.Overall = values
	for p := 1; p <= 100; p++ {
		c.settings.Percentile = p
		assert.Equal(t, Amount(p), percentile(c, 0))
	}
}

func TestMargin(t *testing.T) {
	for _, c := range []struct {
		usage    Usage
		overhead float64
		want     Amount
	}{
		{200, 20, 240}, {200.4, 20, 241}, {200, 0, 200}, {200.4, 0, 201}, {0, 20, 0}, {0.001, 20, 1},
		{100, 10, 110}, {70.00000000000001, 0, 70}, {100, 12.5, 113}, {1, 900, 10},
	} {
		t.Run(fmt.Sprintf("%v plus %v %%", c.usage, c.overhead), func(t *testing.T) {
			chain := newChain(CPU)
			chain.usage, chain.settings.OverheadPercent = c.usage, c.overhead
			assert.Equal(t, c.want, margin(chain, 12345), "the margin is taken from the usage, not from its rounding")
		})
	}
}

func TestBurst(t *testing.T) {
	for name, c := range map[string]struct {
		peak, p95   Usage
		sensitivity float64
		want        Amount
	}{
		"three times is no burst":       {600, 200, 0.1, 1000},
		"three times, but for noise":    {600.0000000000001, 200, 0.1, 1000},
		"just above three times":        {601, 200, 0.1, 1159},
		"four times":                    {800, 200, 0.1, 1200},
		"eight times":                   {1600, 200, 0.1, 1300},
		"sixteen times":                 {3200, 200, 0.1, 1400},
		"a hundred times":               {20000, 200, 0.1, 1665},
		"twice the sensitivity":         {20000, 200, 0.2, 2329},
		"switched off":                  {20000, 200, 0, 1000},
		"a negative sensitivity is off": {20000, 200, -1, 1000},
		"idle but for the peak":         {8, 0, 0.1, 1300},
		"idle":                          {0, 0, 0.1, 1000},
		"below 1m the ratio is to 1m":   {4, 0.5, 0.1, 1200},
	} {
		t.Run(name, func(t *testing.T) {
			chain := newChain(CPU)
			chain.history.Peak, chain.history.Overall = c.peak, at(c.p95)
			chain.settings.BurstSensitivity, chain.settings.Percentile = c.sensitivity, 50
			assert.Equal(t, c.want, burst(chain, 1000))
		})
	}
}

// A percentile does not see the bursts of CPU that is idle most of the time: its request is at least the 99.9th
// percentile. Memory, CPU that is used, and a peak of 10m have no such minimum.
func TestIdleCPUIsSizedForItsBursts(t *testing.T) {
	bursts := func(base, peak Usage) sorted {
		values := make(sorted, 2000)
		for i := range values {
			if values[i] = base; i >= 1950 {
				values[i] = peak
			}
		}
		return values
	}
	for name, c := range map[string]struct {
		resource   Resource
		base, peak Usage
		want       Amount
		why        string
	}{
		"idle with bursts":   {CPU, 0.4, 300, 300, "raised to the 99.9th percentile 300m: idle most of the time, with bursts"},
		"idle without":       {CPU, 0.4, 10, 2, "no minimum: no regression was observed"},
		"used with bursts":   {CPU, 1, 300, 2, "no minimum: no regression was observed"},
		"memory has no such": {Memory, 0.4, 300, 300, "raised to the peak of the window, 300"},
	} {
		t.Run(name, func(t *testing.T) {
			chain := newChain(c.resource)
			chain.history.Peak, chain.history.Overall = c.peak, bursts(c.base, c.peak)
			burst(chain, 2)
			after := floor(chain, 2)
			assert.Equal(t, c.want, after)
			assert.Equal(t, c.why, string(whyFloor(chain, nil, 2, after)))
		})
	}
}

func TestConfidence(t *testing.T) {
	hours := func(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }
	for name, c := range map[string]struct {
		span, step, window time.Duration
		points             int
		want               float64
	}{
		"a full week":                          {hours(168), 5 * time.Minute, hours(168), 2016, 1},
		"more than a week":                     {hours(700), 5 * time.Minute, hours(720), 8400, 1},
		"5.6 days":                             {hours(134.4), 5 * time.Minute, hours(168), 1613, 0.8},
		"a day":                                {hours(24), 5 * time.Minute, hours(168), 288, 1.0 / 7},
		"a week, but few steps":                {hours(168), time.Hour, hours(168), 96, 2.0 / 7},
		"a window of a day is full after one":  {hours(24), 5 * time.Minute, hours(24), 288, 1},
		"a window of a month needs seven days": {hours(84), 5 * time.Minute, hours(720), 1008, 0.5},
		"no window known":                      {hours(84), 5 * time.Minute, 0, 1008, 0.5},
		"nothing measured":                     {0, 5 * time.Minute, hours(168), 0, 0},
		"time that runs backwards":             {-hours(24), 5 * time.Minute, hours(168), 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			p := &ResourceProfile{Points: c.points, First: first, Last: first.Add(c.span - c.step)}
			s := &Settings{HistoryWindow: c.window, QueryStep: c.step}
			assert.InDelta(t, c.want, p.confidence(s), 1e-9)
		})
	}
}

func TestConfidenceWidens(t *testing.T) {
	for _, c := range []struct {
		confidence float64
		want       Amount
	}{{1, 240}, {0.8, 250}, {0.5, 300}, {0.25, 375}, {0, 480}} {
		chain := newChain(CPU)
		chain.confidence = c.confidence
		assert.Equal(t, c.want, confidence(chain, 240), "confidence %v", c.confidence)
	}
}

func TestFloor(t *testing.T) {
	pinned, free := Allocation{Request: 100, Limit: 100}, Allocation{Request: 100, Limit: 200}
	for name, c := range map[string]struct {
		resource         Resource
		original         Allocation
		peak             Usage
		learned, limited Amount
		stay             bool
		want             Amount
	}{
		"CPU may be below its peak":             {resource: CPU, peak: 2000, want: 1000},
		"CPU not below what throttled":          {resource: CPU, learned: 1300, want: 1300},
		"memory not below its peak":             {resource: Memory, peak: 1999.5, want: 2000},
		"memory above its peak stays":           {resource: Memory, peak: 999, want: 1000},
		"memory not below what killed":          {resource: Memory, peak: 999, learned: 1300, want: 1300},
		"the higher of both":                    {resource: Memory, peak: 1400, learned: 1300, want: 1400},
		"a limit above the request is no floor": {resource: Memory, original: free, limited: 1500, want: 1000},
		"an equal limit is one":                 {resource: Memory, original: pinned, limited: 1500, want: 1500},
		"but not for CPU":                       {resource: CPU, original: pinned, limited: 1500, want: 1000},
		"nor where limits are left alone":       {resource: Memory, original: pinned, limited: 1500, stay: true, want: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			chain := newChain(c.resource)
			chain.history.Peak, chain.original, chain.limitFloor = c.peak, c.original, c.limited
			chain.learned, chain.settings.LimitsFollow = Floor{Amount: c.learned}, !c.stay
			assert.Equal(t, c.want, floor(chain, 1000))
		})
	}
}

func TestBounds(t *testing.T) {
	for name, c := range map[string]struct {
		before, low, high, limit, request Amount
		follow                            bool
		want                              Amount
		why                               string
	}{
		"no bounds":                {before: 240, want: 240, why: "no bounds are set"},
		"never zero":               {before: 0, want: 1, why: "raised to 1m, the smallest amount that attune sets"},
		"the smallest request":     {before: 0, request: 5, want: 2, why: "raised to 2m, the smallest amount that attune sets"},
		"the least of both":        {before: 5, follow: true, limit: 100, request: 100, want: 10, why: "raised to 10m, the smallest amount that attune sets"},
		"the template's own":       {before: 1, request: 1, want: 1, why: "no bounds are set"},
		"raised":                   {before: 10, low: 50, want: 50, why: "raised to minAllowed 50m"},
		"at the minimum":           {before: 50, low: 50, want: 50, why: "not below minAllowed 50m"},
		"lowered":                  {before: 5000, low: 50, high: 4000, want: 4000, why: "lowered to maxAllowed 4"},
		"at the maximum":           {before: 4000, high: 4000, want: 4000, why: "not above maxAllowed 4"},
		"within":                   {before: 240, low: 50, high: 4000, want: 240, why: "within 50m and 4"},
		"at a fixed limit":         {before: 5000, high: 4000, limit: 1500, want: 1500, why: "lowered to the limit 1500m, which attune does not change"},
		"a limit that follows":     {before: 5000, limit: 1500, follow: true, want: 5000, why: "no bounds are set"},
		"a minimum above the rest": {before: 10, low: 500, limit: 100, want: 100, why: "raised towards minAllowed, up to the maximum or the limit"},
	} {
		t.Run(name, func(t *testing.T) {
			chain := newChain(CPU)
			chain.original = Allocation{Request: c.request, Limit: c.limit}
			*chain.settings = ResourceSettings{MinAllowed: c.low, MaxAllowed: c.high, LimitsFollow: c.follow}
			after := bounds(chain, c.before)
			assert.Equal(t, c.want, after)
			assert.Equal(t, c.why, string(whyBounds(chain, nil, c.before, after)))
		})
	}
}

func TestRoundUp(t *testing.T) {
	for _, c := range []struct {
		in   Usage
		want Amount
	}{
		{0, 0}, {0.1, 1}, {1, 1}, {1.0001, 2}, {200.4, 201}, {70.00000000000001, 70}, {69.99999999999999, 70},
		{1e12 + 0.5, 1e12 + 1}, {-1, 0}, {-0.5, 0},
		{Usage(math.NaN()), 0}, {Usage(math.Inf(-1)), 0},
		{Usage(math.Inf(1)), MaxAmount}, {1e300, MaxAmount}, {Usage(MaxAmount), MaxAmount}, {Usage(MaxAmount) - 1, MaxAmount - 1},
		{5e-324, 1},
	} {
		assert.Equal(t, c.want, c.in.RoundUp(), "%v", c.in)
	}
}

func TestTimes(t *testing.T) {
	for _, c := range []struct{ a, num, den, want Amount }{
		{333, 3, 2, 499}, {0, 3, 2, 0}, {1, 1, 3, 0},
		{1 << 50, 1 << 50, 1 << 50, 1 << 50},
		{1 << 50, 1 << 50, 1, MaxAmount},
		{1 << 60, 1 << 60, 1 << 56, MaxAmount},
		{1 << 60, 1 << 60, 1<<56 + 1, MaxAmount},
		{math.MaxInt64, math.MaxInt64, 1, MaxAmount},
		{math.MaxInt64, 1, 1, MaxAmount},
	} {
		assert.Equal(t, c.want, c.a.times(c.num, c.den), "%d × %d / %d", c.a, c.num, c.den)
	}
}
