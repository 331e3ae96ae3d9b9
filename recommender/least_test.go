package recommender_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	. "attune.io/attune/recommender"
)

func TestCapLimitNeverRaisesALimit(t *testing.T) {
	for _, tc := range []struct {
		was, to Allocation
		most    Amount
		want    Amount
	}{
		{Allocation{Request: 20, Limit: 1000}, Allocation{Request: 983, Limit: 49150}, 8000, 8000},
		{Allocation{Request: 20, Limit: 1000}, Allocation{Request: 983, Limit: 49150}, 0, 49150},
		{Allocation{Request: 20, Limit: 64000}, Allocation{Request: 10, Limit: 32000}, 8000, 32000},
		{Allocation{Request: 20, Limit: 1000}, Allocation{Request: 9000, Limit: 18000}, 8000, 9001},
		{Allocation{Request: 20, Limit: 20}, Allocation{Request: 9000, Limit: 18000}, 8000, 9000},
		{Allocation{Request: 20}, Allocation{Request: 30}, 8000, 0},
	} {
		assert.Equal(t, Allocation{Request: tc.to.Request, Limit: tc.want}, CPU.CapLimit(tc.was, tc.to, tc.most), "%+v", tc)
	}
}

// A cap leaves a limit above its request if it was above it: with both equal, the pod may become Guaranteed. A new limit
// is whole.
func TestCapLimitKeepsTheQoSClass(t *testing.T) {
	was := Allocation{Request: 100 * mi, Limit: 200 * mi}
	assert.Equal(t, Allocation{Request: 400 * mi, Limit: 401 * mi}, Memory.CapLimit(was, Allocation{Request: 400 * mi, Limit: 800 * mi}, 400*mi))
	assert.Equal(t, Allocation{Request: 400 * mi, Limit: 400 * mi}, Memory.CapLimit(was, Allocation{Request: 400 * mi, Limit: 400 * mi}, 300*mi))
	assert.Equal(t, Allocation{Request: 400 * mi, Limit: 401 * mi}, Memory.CapLimit(Allocation{}, Allocation{Request: 400 * mi, Limit: 800 * mi}, 400*mi))
	assert.Equal(t, Allocation{Request: 400 * mi, Limit: 450 * mi}, Memory.CapLimit(was, Allocation{Request: 400 * mi, Limit: 800 * mi}, 451*mi-1))
	odd := Allocation{Request: 100 * mi, Limit: 600*mi + 1}
	assert.Equal(t, Allocation{Request: 400 * mi, Limit: 600*mi + 1}, Memory.CapLimit(odd, Allocation{Request: 400 * mi, Limit: 800 * mi}, 400*mi))
}

// A second call changes nothing, for any amounts: the API server may call admission again with attune's own result.
func TestLeastSizesAreStable(t *testing.T) {
	amounts := []Amount{0, 1, 2, 5, 10, 100, 1 << 20, 4 << 20, 8 << 20, 16 << 20, 1 << 30}
	for _, r := range Resources {
		for _, wasRequest := range amounts {
			for _, wasLimit := range amounts {
				for _, toRequest := range amounts {
					for _, toLimit := range amounts {
						was, to := Allocation{Request: wasRequest, Limit: wasLimit}, Allocation{Request: toRequest, Limit: toLimit}
						once := r.RaiseToLeast(was, to)
						assert.Equal(t, once, r.RaiseToLeast(was, once), "%v %+v %+v", r, was, to)
						assert.Equal(t, toLimit == 0, once.Limit == 0)
						assert.True(t, once.Limit == 0 || once.Request <= once.Limit)
						assert.True(t, once.Limit == wasLimit || once.Limit == 0 || once.Limit >= [2]Amount{CPU: 10, Memory: 16 * mi}[r], "%v %+v %+v", r, was, once)
					}
				}
			}
		}
	}
}

// Usage above maxAllowed raises no limit above max(original limit, maxAllowed), and lowers no limit below 1.1 times its
// peak. An OOM kill raises the memory limit further.
func TestMaxAllowedAndTheLimitThatUsageNeeds(t *testing.T) {
	in := input(flat(2016, 3.25, 1000*mi))
	in.Profile.Of[CPU].Peak = 4500
	in.Original = Size{{Request: 1000, Limit: 2000}, {Request: 600 * mi, Limit: 700 * mi}}
	for r := range in.Settings.Of {
		of := &in.Settings.Of[r]
		of.LimitsFollow, of.MaxChangePercent, of.MaxAllowed, of.AllowDecrease = true, 1000, Size{{Request: 4000}, {Request: 900 * mi}}[r].Request, true
	}
	end := func(live Size) Size {
		rec := Recommend(in)
		m := Move{Target: rec.Target, CPULimitFloor: rec.CPULimitFloor, MemoryLimitFloor: rec.MemoryLimitFloor, OOMFloor: in.Killed.Amount, Live: live,
			Original: in.Original, Settings: in.Settings}
		for range 20 {
			m.Live = NextStep(m).Next
		}
		return m.Live
	}
	want := Size{{Request: 3900, Limit: 4000}, {Request: 900 * mi, Limit: 901 * mi}} // above the request
	assert.Equal(t, want, Recommend(in).Target)
	assert.Equal(t, want, end(in.Original))
	assert.Equal(t, Size{{Request: 3900, Limit: 4950}, {Request: 900 * mi, Limit: 1100 * mi}}, end(Size{{Request: 1000, Limit: 6000}, {Request: mi, Limit: 2000 * mi}}))
	assert.Equal(t, Size{{Request: 3900, Limit: 4500}, {Request: 900 * mi, Limit: 1050 * mi}}, end(Size{{Request: 1000, Limit: 4500}, {Request: mi, Limit: 1050 * mi}}))

	in.Killed = Floor{Amount: 1300 * mi}
	want[Memory].Limit = 1300 * mi
	assert.Equal(t, want, Recommend(in).Target)
	assert.Equal(t, want, end(in.Original))
}

// The peak of starts is not in the history of CPU. It bounds decreases of the limit as any other peak.
func TestACPULimitIsNotLoweredBelowTheStart(t *testing.T) {
	in := input(flat(2016, 0.1, 50*mi))
	in.Original[CPU], in.Settings.Of[CPU].LimitsFollow = Allocation{Request: 500, Limit: 2000}, true
	assert.Equal(t, Allocation{Request: 120, Limit: 480}, Recommend(in).Target[CPU])
	in.Profile.Starts = 2000
	r := Recommend(in)
	assert.Equal(t, Allocation{Request: 120, Limit: 2000}, r.Target[CPU])
	assert.Equal(t, Amount(2200), r.CPULimitFloor)
	in.Profile.Starts = 1000
	assert.Equal(t, Allocation{Request: 120, Limit: 1100}, Recommend(in).Target[CPU])
}
