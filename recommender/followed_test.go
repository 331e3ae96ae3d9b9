package recommender_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "attune.io/attune/recommender"
)

// filled are limits in Mi with the usage under each as a part of it.
func filled(limits [3]Amount, parts [3]float64) (out []LimitUsage) {
	for i, l := range limits {
		out = append(out, LimitUsage{Limit: l * mi, Usage: Amount(parts[i] * float64(l*mi))})
	}
	return out
}

// Usage follows its limit if it filled three limits, each at least a tenth higher than the one before, to the same share
// within 5 %. An OOM kill at a limit shows that the raise was needed.
func TestFollowedLimit(t *testing.T) {
	same := [3]float64{0.87, 0.87, 0.87}
	for name, c := range map[string]struct {
		limits []LimitUsage
		killed Amount // the limit at the kill
		want   Amount
	}{
		"the same share":              {limits: filled([3]Amount{512, 768, 1024}, same), want: 1024 * mi},
		"within 5 %":                  {limits: filled([3]Amount{512, 768, 1024}, [3]float64{0.84, 0.88, 0.86}), want: 1024 * mi},
		"a small share":               {limits: filled([3]Amount{512, 768, 1024}, [3]float64{0.25, 0.25, 0.25}), want: 1024 * mi},
		"6 % apart":                   {limits: filled([3]Amount{512, 768, 1024}, [3]float64{0.83, 0.88, 0.86})},
		"two limits":                  {limits: filled([3]Amount{512, 768, 1024}, same)[:2]},
		"no limit":                    {},
		"constant usage":              {limits: filled([3]Amount{512, 564, 621}, [3]float64{0.87, 0.79, 0.72})},
		"a little higher each time":   {limits: filled([3]Amount{512, 530, 550}, same)},
		"the last a little higher":    {limits: filled([3]Amount{512, 768, 800}, same)},
		"lowered":                     {limits: filled([3]Amount{1024, 768, 512}, same)},
		"not constant under one":      {limits: filled([3]Amount{512, 768, 1024}, [3]float64{0.87, 0, 0.87})},
		"killed at the last":          {limits: filled([3]Amount{512, 768, 1024}, same), killed: 1024 * mi},
		"killed at the first":         {limits: filled([3]Amount{512, 768, 1024}, same), killed: 512 * mi},
		"killed at a limit before it": {limits: filled([3]Amount{512, 768, 1024}, same), killed: 400 * mi, want: 1024 * mi},
	} {
		t.Run(name, func(t *testing.T) {
			var taught Amount
			if c.killed > 0 {
				taught = OOMFloor(c.killed)
			}
			assert.Equal(t, c.want, FollowedLimit(c.limits, taught))
		})
	}
}

// followed is a container of 512Mi whose usage fills any limit to 93 %, and has filled three of them.
func followed() Input {
	in := filling(700*mi, 0.93, Allocation{Request: 512 * mi, Limit: 512 * mi})
	in.Limits = filled([3]Amount{512, 598, 700}, [3]float64{0.93, 0.93, 0.93})
	return in
}

// A limit that usage follows is not raised, for each shape of template. What a user or an OOM kill asks for takes precedence.
func TestFollowedLimitIsKept(t *testing.T) {
	const without = "Lifted by an OOM kill, a higher limit in the template, or memory.controlledValues: RequestsOnly"
	r := Recommend(followed())
	assert.Equal(t, Allocation{Request: 700 * mi, Limit: 700 * mi}, r.Target[Memory])
	assert.Equal(t, Amount(700*mi), r.MemoryLimitFloor)
	assert.Equal(t, "memory stays at 93 % of its limit at 512Mi, 598Mi and 700Mi: it follows its limit, so attune keeps the limit 700Mi. "+
		"Set memory.maxAllowed, or the heap or cache size of the program. "+without, holdsFor(r.Holds, FollowsItsLimit))

	burstable := followed()
	burstable.Original[Memory] = Allocation{Request: 400 * mi, Limit: 512 * mi}
	r = Recommend(burstable)
	assert.Equal(t, Allocation{Request: 699 * mi, Limit: 700 * mi}, r.Target[Memory])

	two := followed()
	two.Limits = two.Limits[1:]
	assert.Greater(t, Recommend(two).Target[Memory].Limit, Amount(700*mi), "as without the three limits")

	killed := followed()
	killed.Killed = Floor{Amount: OOMFloor(700 * mi), Taught: OOMFloor(700 * mi), Reason: "oomkill"}
	assert.GreaterOrEqual(t, Recommend(killed).Target[Memory].Limit, Memory.Whole(OOMFloor(700*mi)))

	before := followed()
	before.Killed = Floor{Amount: OOMFloor(510 * mi), Taught: OOMFloor(510 * mi), Reason: "oomkill"}
	assert.GreaterOrEqual(t, Recommend(before).Target[Memory].Limit, Amount(700*mi))

	higher := followed()
	higher.Original[Memory] = Allocation{Request: 900 * mi, Limit: 900 * mi}
	assert.Empty(t, holdsFor(Recommend(higher).Holds, FollowsItsLimit), "a higher limit in the template")

	least := followed()
	least.Settings.Of[Memory].MinAllowed = 900 * mi
	assert.Equal(t, Amount(900*mi), Recommend(least).Target[Memory].Limit)

	only := followed()
	only.Settings.Of[Memory].LimitsFollow = false
	assert.Empty(t, holdsFor(Recommend(only).Holds, FollowsItsLimit))
}

// The three limits only keep a limit from being raised: what is recommended at or below the last of them stays.
func TestFollowedLimitLowersNothing(t *testing.T) {
	in := followed()
	in.Profile = filling(700*mi, 0.5, Allocation{}).Profile
	with := Recommend(in)
	in.Limits = nil
	assert.Equal(t, Recommend(in), with)
}

// On the way to such a target no resize step raises the limit by its ratio to the request.
func TestStepsKeepAFollowedLimit(t *testing.T) {
	in := filling(1000*mi, 0.6, Allocation{Request: 400 * mi, Limit: 800 * mi})
	in.Limits = filled([3]Amount{800, 900, 1000}, [3]float64{0.6, 0.6, 0.6})
	r := Recommend(in)
	require.Empty(t, r.Holds, "the request follows usage")
	require.Equal(t, Amount(1000*mi), r.Target[Memory].Limit)
	live := Size{Memory: {Request: 500 * mi, Limit: 1000 * mi}}
	for range 5 {
		live = NextStep(Move{Target: r.Target, Live: live, Original: in.Original, MemoryLimitFloor: r.MemoryLimitFloor, Settings: in.Settings}).Next
		require.Equal(t, Amount(1000*mi), live[Memory].Limit)
	}
	assert.Equal(t, r.Target[Memory].Request, live[Memory].Request)
}
