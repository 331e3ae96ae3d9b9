package recommender_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	. "attune.io/attune/recommender"
)

func TestLimitFor(t *testing.T) {
	for name, c := range map[string]struct {
		resource       Resource
		original       Allocation
		request, floor Amount
		want           Amount
	}{
		"no limit, none added":                     {CPU, Allocation{Request: 500}, 250, 0, 0},
		"no limit, none added by a floor":          {Memory, Allocation{Request: 500}, 250, 900, 0},
		"twice":                                    {CPU, Allocation{Request: 500, Limit: 1000}, 250, 0, 500},
		"rounded down, for a LimitRange's ratio":   {CPU, Allocation{Request: 1000, Limit: 1500}, 333, 0, 499},
		"equal":                                    {CPU, Allocation{Request: 500, Limit: 500}, 251, 0, 251},
		"a limit without a request counts as both": {CPU, Allocation{Limit: 500}, 250, 0, 250},
		"never below the request":                  {CPU, Allocation{Request: 500, Limit: 400}, 250, 0, 250},
		"memory above its floor":                   {Memory, Allocation{Request: 500, Limit: 1000}, 250 * mi, 499 * mi, 500 * mi},
		"memory at its floor":                      {Memory, Allocation{Request: 500, Limit: 1000}, 250 * mi, 501 * mi, 501 * mi},
		"CPU not lowered below its floor":          {CPU, Allocation{Request: 500, Limit: 1000}, 250, 501, 501},
		"CPU never raised by its floor":            {CPU, Allocation{Request: 500, Limit: 1000}, 250, 5000, 1000},
		"equal CPU stays equal":                    {CPU, Allocation{Request: 500, Limit: 500}, 250, 501, 250},
		"CPU of a placeholder request":             {CPU, Allocation{Request: 20, Limit: 1000}, 983, 0, 1966},
		"a placeholder up to the floor":            {CPU, Allocation{Request: 20, Limit: 1000}, 983, 2200, 2200},
		"memory of a placeholder request":          {Memory, Allocation{Request: 16 * mi, Limit: 512 * mi}, 498 * mi, 0, 996 * mi},
		"up to the original limit":                 {Memory, Allocation{Request: 16 * mi, Limit: 512 * mi}, 20 * mi, 0, 512 * mi},
		"lowered by the ratio all the same":        {Memory, Allocation{Request: 16 * mi, Limit: 512 * mi}, 8 * mi, 0, 256 * mi},
		"memory in whole MiB, for the ratio":       {Memory, Allocation{Request: 1000, Limit: 1500}, 333 * mi, 0, 499 * mi},
		"its floor in whole MiB":                   {Memory, Allocation{Request: 500, Limit: 1000}, 250 * mi, 500*mi + 1, 501 * mi},
		"little memory in whole KiB":               {Memory, Allocation{Request: 1000, Limit: 1500}, 333 << 10, 0, 499 << 10},
		"never equal to the request by rounding":   {Memory, Allocation{Request: 1000, Limit: 1001}, 333 * mi, 0, 333*mi + 340<<10},
		"one that would overflow":                  {Memory, Allocation{Request: 1 << 40, Limit: 1 << 41}, 1 << 50, 0, 1 << 51},
		"one that is beyond all measure":           {Memory, Allocation{Request: 1, Limit: math.MaxInt64}, math.MaxInt64, 0, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, LimitFor(c.resource, c.original, c.request, c.floor))
		})
	}
}

// maxAllowed bounds raises of limits. It lowers no limit below the original one, and keeps a memory limit above its
// request. A resize step stops at the same limit.
func TestLimitsStayWithinMaxAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		original       Allocation
		most           Amount
		used, peak     float64
		request, limit Amount
	}{
		"bounded":                      {Allocation{Request: 100 * mi, Limit: 400 * mi}, 600 * mi, 300, 300, 390 * mi, 600 * mi},
		"the original limit is higher": {Allocation{Request: 400 * mi, Limit: 900 * mi}, 500 * mi, 300, 300, 390 * mi, 877 * mi},
		"1.1 times the peak is higher": {Allocation{Request: 100 * mi, Limit: 400 * mi}, 300 * mi, 200, 600, 300 * mi, 400 * mi},
		"a request at the bound":       {Allocation{Request: 100 * mi, Limit: 200 * mi}, 350 * mi, 300, 300, 350 * mi, 351 * mi},
		"request and limit equal":      {Allocation{Request: 400 * mi, Limit: 400 * mi}, 350 * mi, 300, 300, 350 * mi, 350 * mi},
		"no bound: twice the request":  {Allocation{Request: 10 * mi, Limit: 800 * mi}, 0, 700, 700, 910 * mi, 1600 * mi},
	} {
		t.Run(name, func(t *testing.T) {
			steps := flat(2016, 0.2, c.used*mi)
			steps[1000].MemoryPeak = c.peak * mi
			in := input(steps)
			in.Original[Memory], in.Settings.Of[Memory].MaxAllowed, in.Settings.Of[Memory].LimitsFollow = c.original, c.most, true
			in.Settings.Of[Memory].AllowDecrease, in.Settings.Of[Memory].BurstSensitivity = true, 0
			r := Recommend(in)
			if c.peak > c.used {
				c.request = min(Memory.Whole(Amount(c.peak*mi)), c.most)
			}
			assert.Equal(t, Allocation{Request: c.request, Limit: c.limit}, r.Target[Memory])
			live := Size{Memory: c.original}
			for range 40 {
				live = NextStep(Move{Target: r.Target, CPULimitFloor: r.CPULimitFloor, MemoryLimitFloor: r.MemoryLimitFloor, OOMFloor: max(in.Floors[Memory].Amount, in.Killed.Amount), Live: live, Original: in.Original, Settings: in.Settings}).Next
			}
			if c.original.Request != c.original.Limit {
				assert.InDelta(t, float64(c.limit), float64(live[Memory].Limit), 0.1*float64(c.limit), "within the dead band")
				assert.LessOrEqual(t, live[Memory].Limit, max(c.limit, c.original.Limit))
			}
		})
	}
}

// X21: CPU that is idle but for bursts keeps room for them: the request is not below the 99.9th percentile, and no step
// lowers the limit below 1.1 times the peak.
func TestIdleCPUKeepsRoomForItsBursts(t *testing.T) {
	steps := flat(2016, 0, 50*mi)
	for i := range steps {
		if i%40 == 0 {
			steps[i].CPUCores = 0.3
		}
	}
	steps[1000].CPUCores = 0.8
	in := input(steps)
	in.Original[CPU], in.Settings.Of[CPU].LimitsFollow = Allocation{Request: 500, Limit: 1000}, true
	r := Recommend(in)
	assert.GreaterOrEqual(t, r.Target[CPU].Request, Amount(300))
	assert.Equal(t, Amount(880), r.Target[CPU].Limit)
	live := Size{CPU: in.Original[CPU]}
	for range 20 {
		live = NextStep(Move{Target: r.Target, CPULimitFloor: r.CPULimitFloor, Live: live, Original: in.Original, Settings: in.Settings}).Next
		assert.GreaterOrEqual(t, live[CPU].Limit, Amount(880))
	}
}

// A ratio read back from the live allocation would drift to 1; the original ratio does not.
func TestRatioSurvivesAHundredResizes(t *testing.T) {
	original := Allocation{Request: 700, Limit: 1000}
	settings := builtIn()
	live := original
	for i := range 100 {
		target := Amount(137 + 911*(i%2) + i)
		for range 20 {
			live = NextStep(Move{
				Target: Size{CPU: {Request: target}}, Live: Size{CPU: live}, Original: Size{CPU: original}, Settings: settings,
			}).Next[CPU]
		}
		exact := float64(live.Request) * 1000 / 700
		assert.InDelta(t, exact, float64(live.Limit), 1, "resize %d: %v", i, live)
	}
}

func TestLessons(t *testing.T) {
	assert.Equal(t, Amount(1300*mi), OOMFloor(1000*mi))
	assert.Equal(t, Amount(132), OOMFloor(101), "131.3, rounded up")
	assert.Equal(t, Amount(650), ThrottleFloor(500))
}

func TestDecay(t *testing.T) {
	week := 7 * 24 * time.Hour
	for name, c := range map[string]struct {
		age  time.Duration
		want Amount
	}{
		"new":                   {0, 1000},
		"a week":                {week, 800},
		"two weeks":             {2 * week, 640},
		"half a week":           {week / 2, 895},
		"learned in the future": {-week, 1000},
		"a long time":           {200 * week, 1},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, Decay(1000, now.Add(-c.age), now))
		})
	}
	assert.Zero(t, Decay(0, now.Add(-week), now), "no floor stays none")
}
