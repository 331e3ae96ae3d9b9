package recommender_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "attune.io/attune/recommender"
)

// filling is a week of usage that fills a part of a limit, such as page cache or a heap sized from the limit.
func filling(limit Amount, part float64, template Allocation) Input {
	in := input(flat(2016, 0.2, float64(limit)*part))
	in.Original[Memory] = template
	in.Settings.Of[Memory].LimitsFollow = true
	return in
}

// A heap that takes 93 % of any limit, one rollout after another, for each shape of template. Without an OOM kill the
// limit stops at twice the template's, and the hold says so.
func TestBrakeOnUsageThatFollowsItsLimit(t *testing.T) {
	for name, template := range map[string]Allocation{
		"request and limit equal": {Request: 512 * mi, Limit: 512 * mi},
		"limit twice the request": {Request: 256 * mi, Limit: 512 * mi},
		"limit alone":             {Limit: 512 * mi},
		"ten times the request":   {Request: 51 * mi, Limit: 512 * mi},
	} {
		for _, part := range []float64{0.75, 0.93, 0.98} {
			t.Run(name, func(t *testing.T) {
				limit, reported := Amount(512*mi), false
				for range 12 {
					r := Recommend(filling(limit, part, template))
					limit = max(limit, r.Target[Memory].Limit, r.MemoryLimitFloor)
					require.LessOrEqual(t, limit, Amount(1024*mi), "%v of the limit", part)
					require.LessOrEqual(t, r.Target[Memory].Request, r.Target[Memory].Limit)
					reported = holdsFor(r.Holds, FollowsItsLimit) != ""
				}
				assert.Equal(t, part > 0.77, reported, "%v of the limit", part)
			})
		}
	}
}

func holdsFor(holds []Hold, reason Reason) string {
	for _, h := range holds {
		if h.Resource == Memory && h.Reason == reason {
			return h.Message
		}
	}
	return ""
}

// The hold has the figures and the ways to lift it. An OOM kill, a higher limit in the template or RequestsOnly lifts
// it.
func TestBrakeIsLifted(t *testing.T) {
	template := Allocation{Request: 256 * mi, Limit: 512 * mi}
	braked := filling(1024*mi, 0.98, template)
	assert.Equal(t, "usage of up to 1003.52Mi needs a memory limit of 1305Mi, but without an OOM kill attune does not raise the limit above 1Gi, twice the template's 512Mi. "+
		"Lifted by an OOM kill, a higher limit in the template, or memory.controlledValues: RequestsOnly", holdsFor(Recommend(braked).Holds, FollowsItsLimit))

	killed := braked
	killed.Floors[Memory] = Floor{Amount: 1200 * mi, Taught: OOMFloor(1024 * mi), Reason: "oomkill"}
	r := Recommend(killed)
	assert.Equal(t, Memory.Whole(OOMFloor(1024*mi)), r.Target[Memory].Limit, "by what the kill taught, not by what is left of it after weeks")

	template.Limit = 1024 * mi
	assert.Empty(t, holdsFor(Recommend(filling(1024*mi, 0.98, template)).Holds, FollowsItsLimit))

	left := braked
	left.Settings.Of[Memory].LimitsFollow = false
	assert.Empty(t, holdsFor(Recommend(left).Holds, FollowsItsLimit))

	none := braked
	none.Original[Memory] = Allocation{Request: 256 * mi}
	assert.Empty(t, holdsFor(Recommend(none).Holds, FollowsItsLimit), "a container without a limit has no brake")
}

// A limit of many times its request ends at twice the request or twice the template's limit, whichever is less. The
// request still follows usage, which is far from the limit.
func TestBrakeCapsARatioWithoutHold(t *testing.T) {
	for _, tc := range []struct{ usage, template, request, limit Amount }{
		{500 * mi, 100 * mi, 650 * mi, 1300 * mi},
		{1000 * mi, 100 * mi, 1300 * mi, 2048 * mi},
		{1000 * mi, 400 * mi, 1300 * mi, 2048 * mi},
	} {
		r := Recommend(filling(tc.usage, 1, Allocation{Request: tc.template, Limit: 1024 * mi}))
		assert.Equal(t, Allocation{Request: tc.request, Limit: tc.limit}, r.Target[Memory])
		assert.Empty(t, r.Holds)
	}
}

// A chain of OOM kills reaches its size: from 16Mi to 400Mi in less than the 16 kills after which a workload is paused.
func TestBrakeLetsAChainOfKillsArrive(t *testing.T) {
	template := Allocation{Request: 8 * mi, Limit: 16 * mi}
	limit, taught, kills := template.Limit, Amount(0), 0
	for ; limit < 400*mi; kills++ {
		require.Less(t, kills, 14)
		taught = OOMFloor(limit)
		in := filling(limit, 1, template)
		in.Floors[Memory] = Floor{Amount: taught, Taught: taught, Reason: "oomkill"}
		limit = max(limit, Recommend(in).Target[Memory].Limit)
	}
}

// A resize step of a running container goes no further than its target, for any ratio of the request on its way.
func TestBrakeOnSteps(t *testing.T) {
	in := filling(1024*mi, 0.98, Allocation{Request: 256 * mi, Limit: 512 * mi})
	r := Recommend(in)
	live := Size{Memory: {Request: 256 * mi, Limit: 512 * mi}}
	for range 20 {
		live = NextStep(Move{Target: r.Target, Live: live, Original: in.Original, CPULimitFloor: r.CPULimitFloor, MemoryLimitFloor: r.MemoryLimitFloor, OOMFloor: max(in.Floors[Memory].Amount, in.Killed.Amount), Settings: in.Settings}).Next
		require.LessOrEqual(t, live[Memory].Limit, Amount(1024*mi))
		require.LessOrEqual(t, live[Memory].Request, live[Memory].Limit)
	}
	assert.Equal(t, Amount(1024*mi), live[Memory].Limit)
}
