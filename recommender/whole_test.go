package recommender_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "attune.io/attune/recommender"
)

const ki = 1 << 10

func TestWhole(t *testing.T) {
	for _, c := range []struct {
		resource     Resource
		in, up, down Amount
	}{
		{CPU, 0, 0, 0}, {CPU, 1, 1, 1}, {CPU, 1234567, 1234567, 1234567},
		{Memory, 0, 0, 0}, {Memory, 1, ki, 0}, {Memory, ki, ki, ki}, {Memory, ki + 1, 2 * ki, ki},
		{Memory, 110916639, 106 * mi, 105 * mi}, {Memory, 106 * mi, 106 * mi, 106 * mi},
		{Memory, 16*mi - 1, 16 * mi, 16*mi - ki}, {Memory, 16 * mi, 16 * mi, 16 * mi}, {Memory, 16*mi + 1, 17 * mi, 16 * mi},
		{Memory, MaxAmount - 1, MaxAmount, MaxAmount - mi}, {Memory, MaxAmount, MaxAmount, MaxAmount},
	} {
		assert.Equal(t, c.up, c.resource.Whole(c.in), "%v %d up", c.resource, c.in)
		assert.Equal(t, c.down, c.resource.WholeDown(c.in), "%v %d down", c.resource, c.in)
	}
}

func TestWholeMiB(t *testing.T) {
	for in, want := range map[Amount]Amount{0: 0, 1: mi, ki: mi, mi: mi, mi + 1: 2 * mi, 17*mi - 1: 17 * mi, MaxAmount: MaxAmount} {
		assert.Equal(t, want, WholeMiB(in), "%d", in)
	}
}

// The two directions of the headroom agree.
func TestHeadroomOfAMemoryLimit(t *testing.T) {
	for _, usage := range []Amount{0, 1, 10, 999, ki, 100*mi + 7, 3 << 30, 5 << 40} {
		assert.InDelta(t, float64(usage)*1.1, float64(WithHeadroom(usage)), 1)
		assert.InDelta(t, float64(usage), float64(WithoutHeadroom(WithHeadroom(usage))), 1)
	}
}

func TestWholeWithin(t *testing.T) {
	for name, c := range map[string]struct{ a, lowest, highest, want Amount }{
		"up":                              {110916639, 0, 0, 106 * mi},
		"up to the bound":                 {110916639, 0, 106 * mi, 106 * mi},
		"down where up would pass it":     {110916639, 0, 106*mi - 1, 105 * mi},
		"down to the lowest":              {110916639, 105 * mi, 110916639, 105 * mi},
		"nothing whole between":           {110916639, 105*mi + 1, 110916639, 110916639},
		"a lowest above the highest":      {110916639, 106 * mi, 110916639, 105 * mi},
		"never zero":                      {1000, 0, 1000, 1000},
		"zero stays":                      {0, 0, 1000, 0},
		"little memory down to whole KiB": {3000, 0, 3000, 2 * ki},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, Memory.WholeWithin(c.a, c.lowest, c.highest)) })
	}
}

// whole is an independent definition: divisible without remainder.
func whole(a Amount) bool { return a%mi == 0 || a < 16*mi && a%ki == 0 }

// Stored amounts are whole, within the bounds, and not below the floors, except where the bounds force that.
func TestTargetsAreWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	lowered := 0
	for range 400 {
		in, _ := randomInput(rng)
		in.Original = randomSize(rng)
		s := &in.Settings.Of[Memory]
		s.MinAllowed, s.MaxAllowed = 0, pick(rng, 0, Amount(64*mi+rng.IntN(2e9)))
		s.LimitsFollow = rng.IntN(3) > 0
		r := Recommend(in)
		target, highest := r.Target[Memory], s.MaxAllowed
		if fixed := in.Original[Memory].Limit; !s.LimitsFollow && fixed > 0 && (highest == 0 || fixed < highest) {
			highest = fixed
		}
		if ceiling := MemoryCeiling(in.Original[Memory], in.Floors[Memory], 0); s.LimitsFollow && ceiling > 0 {
			if o := in.Original[Memory]; o.Request > 0 && o.Request != o.Limit {
				ceiling = max(o.Request, ceiling-mi) // the request stays below the limit
			}
			if highest == 0 || ceiling < highest {
				highest = ceiling
			}
		}
		exact := in.Original[Memory].Limit == target.Request // pinned to a limit that does not change
		require.True(t, whole(target.Request) || exact && !s.LimitsFollow, "%+v of %+v", target, in.Original)
		unchanged := target.Limit == in.Original[Memory].Limit
		require.True(t, whole(target.Limit) || !s.LimitsFollow || target.Limit%ki == 0 || unchanged, "%+v of %+v", target, in.Original)
		require.True(t, whole(r.MemoryLimitFloor))
		if highest > 0 {
			require.LessOrEqual(t, target.Request, highest)
		}
		least := max(in.Profile.Of[Memory].Peak.RoundUp(), in.Floors[Memory].Amount)
		if target.Request < least {
			lowered++
			require.Greater(t, Memory.Whole(least), highest, "only a bound forces it below what harms")
		}
		above := slices.ContainsFunc(r.Holds, func(h Hold) bool { return h.Resource == Memory && h.Reason == FloorAboveMaximum })
		if s.LimitsFollow && target.Limit > 0 && !above {
			floor := s.RaisedWithin(r.MemoryLimitFloor, max(in.Floors[Memory].Amount, in.Killed.Amount), in.Original[Memory])
			require.GreaterOrEqual(t, target.Limit, floor)
		}
	}
	assert.Greater(t, lowered, 20, "bounds have to matter")
}

// From any amount of memory, whole or not, each step is closer, within the cap, and whole unless the cap is less than
// the grain. The last one ends within the dead band.
func TestStepsOfMemoryAreWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	for range 300 {
		m := Move{Target: Size{Memory: {Request: Memory.Whole(Amount(1 + rng.IntN(4e9)))}}, Settings: builtIn()}
		m.Live[Memory].Request = Amount(1 + rng.IntN(4e9))
		s := &m.Settings.Of[Memory]
		s.AllowDecrease, s.MaxChangePercent = true, pick(rng, 1, 5, 30, 50)
		target := m.Target[Memory].Request
		for steps := 0; ; steps++ {
			require.Less(t, steps, 20000, "it arrives")
			live, next := m.Live[Memory].Request, NextStep(m).Next[Memory].Request
			if next == live {
				require.Less(t, 10*abs(target-live), live)
				break
			}
			most := max(1, live*Amount(s.MaxChangePercent)/100)
			require.Less(t, abs(target-next), abs(target-live))
			require.LessOrEqual(t, abs(next-live), most)
			require.True(t, whole(next) || most < mi, "%d to %d of %d", live, next, target)
			m.Live[Memory].Request = next
		}
	}
}

// With the default cap, whole steps reach the target as fast as exact steps.
func TestWholeStepsAreNotMore(t *testing.T) {
	m := Move{Live: Size{Memory: {Request: 4096*mi + 7}}, Target: Size{Memory: {Request: 250 * mi}}, Settings: builtIn()}
	m.Settings.Of[Memory].AllowDecrease = true
	m.Settings.Of[Memory].MaxChangePercent = 50
	assert.Equal(t, []string{"4294967303", "2049Mi", "1025Mi", "513Mi", "257Mi"}, walk(m, Memory))
}
