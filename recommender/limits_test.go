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
		"CPU has no such floor":                    {CPU, Allocation{Request: 500, Limit: 1000}, 250, 501, 500},
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
