package recommender_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "attune.io/attune/recommender"
)

// cpuMove is a change of CPU only.
func cpuMove(live, target Amount) Move {
	return Move{Live: Size{CPU: {Request: live}}, Target: Size{CPU: {Request: target}}, Original: Size{CPU: {Request: live}}, Settings: builtIn()}
}

func TestNextStepRequest(t *testing.T) {
	for name, c := range map[string]struct {
		live, target, want Amount
		percent            int
		hold               Reason
	}{
		"the worked example":                  {live: 500, target: 250, percent: 50, want: 250},
		"capped down":                         {live: 500, target: 249, percent: 50, want: 250},
		"capped up":                           {live: 500, target: 1215, percent: 50, want: 750},
		"within the cap":                      {live: 500, target: 600, percent: 50, want: 600},
		"already there":                       {live: 500, target: 500, percent: 50, want: 500, hold: SmallChange},
		"just within the dead band, upwards":  {live: 500, target: 549, percent: 50, want: 500, hold: SmallChange},
		"just at its edge, upwards":           {live: 500, target: 550, percent: 50, want: 550},
		"just within the dead band, down":     {live: 500, target: 451, percent: 50, want: 500, hold: SmallChange},
		"just at its edge, down":              {live: 500, target: 450, percent: 50, want: 450},
		"an edge that is no whole amount":     {live: 505, target: 555, percent: 50, want: 505, hold: SmallChange},
		"one above such an edge":              {live: 505, target: 556, percent: 50, want: 556},
		"the smallest steps up":               {live: 1, target: 9, percent: 50, want: 2},
		"the smallest steps down":             {live: 3, target: 1, percent: 10, want: 2},
		"the cap is rounded to the safe side": {live: 3, target: 9, percent: 50, want: 4},
		"no cap at all still moves one unit":  {live: 500, target: 900, percent: 0, want: 501},
		"a cap beyond the whole":              {live: 500, target: 1, percent: 1000, want: 1},
		"not set so far":                      {live: 0, target: 250, percent: 50, want: 250},
		"no target":                           {live: 500, target: 0, percent: 50, want: 500},
	} {
		t.Run(name, func(t *testing.T) {
			m := cpuMove(c.live, c.target)
			m.Settings.Of[CPU].MaxChangePercent = c.percent
			change := NextStep(m)
			assert.Equal(t, Size{CPU: {Request: c.want}}, change.Next)
			if c.hold == "" {
				assert.Empty(t, change.Holds)
				return
			}
			require.Len(t, change.Holds, 1)
			assert.Equal(t, c.hold, change.Holds[0].Reason)
			assert.Equal(t, change.Steps[0].Reason, change.Holds[0].Message)
		})
	}
}

func TestNextStepSteps(t *testing.T) {
	m := cpuMove(500, 250)
	m.Container = "app"
	assert.Equal(t, []Step{{
		Resource: CPU, Name: "change", Before: 250, After: 250, Reason: "500m to 250m is -50 %, within the cap of 50 % per resize",
	}}, NextStep(m).Steps)

	m.Target = Size{}
	assert.Equal(t, Change{Next: m.Live}, NextStep(m), "without a target there is nothing to say")
}

// A template of four cores for a target of 100m.
func TestNextStepConverges(t *testing.T) {
	path := walk(cpuMove(4000, 100), CPU)
	assert.Equal(t, []string{"4", "2", "1", "500m", "250m", "125m", "100m"}, path)
	assert.LessOrEqual(t, len(path)-1, 8)
}

// For any start, target and cap: finitely many steps, each closer, and then no change within the dead band around the
// target.
func TestNextStepAlwaysSettles(t *testing.T) {
	amounts := []Amount{1, 2, 3, 7, 10, 11, 95, 100, 105, 999, 4000, 64000, 1 << 30, 1 << 40}
	for _, percent := range []int{1, 5, 9, 10, 30, 50, 100, 1000} {
		for _, live := range amounts {
			for _, target := range amounts {
				m := cpuMove(live, target)
				m.Settings.Of[CPU].MaxChangePercent = percent
				end := settle(t, m)
				assert.Less(t, 10*abs(target-end), max(end, 1), "%d to %d by %d %% ended at %d", live, target, percent, end)
			}
		}
	}
}

// settle repeats the change until nothing changes.
func settle(t *testing.T, m Move) Amount {
	for range 20000 {
		next := NextStep(m).Next
		if next == m.Live {
			return next[CPU].Request
		}
		require.Less(t, abs(m.Target[CPU].Request-next[CPU].Request), abs(m.Target[CPU].Request-m.Live[CPU].Request), "each step is closer")
		m.Live = next
	}
	require.Fail(t, "does not settle", "%+v", m)
	return 0
}

func abs(a Amount) Amount { return max(a, -a) }

func TestNextStepMemoryDecrease(t *testing.T) {
	m := Move{
		Live:   Size{{Request: 500}, {Request: 1000 * mi}},
		Target: Size{{Request: 250}, {Request: 500 * mi}}, Settings: builtIn(),
	}
	change := NextStep(m)
	assert.Equal(t, Size{{Request: 250}, {Request: 1000 * mi}}, change.Next)
	require.Len(t, change.Holds, 1)
	assert.Equal(t, DecreaseNotAllowed, change.Holds[0].Reason)
	assert.Equal(t, "1000Mi to 500Mi is -50 %; memory is lowered only with allowDecrease", change.Holds[0].Message)

	m.Settings.Of[Memory].AllowDecrease = true
	assert.Equal(t, Size{{Request: 250}, {Request: 700 * mi}}, NextStep(m).Next)

	m.Settings.Of[CPU].AllowDecrease = false
	m.Original[CPU] = Allocation{Request: 500, Limit: 1000}
	m.Live[CPU] = m.Original[CPU]
	assert.Equal(t, Allocation{Request: 250, Limit: 500}, NextStep(m).Next[CPU], "CPU needs no leave: there is no such setting")
}

// inMi is an allocation with amounts in MiB.
func inMi(a Allocation) Allocation { return Allocation{Request: a.Request * mi, Limit: a.Limit * mi} }

// Amounts are in MiB.
func TestNextStepLimits(t *testing.T) {
	for name, c := range map[string]struct {
		original, live Allocation
		target, floor  Amount
		stay, decrease bool
		highest        Amount
		want           Allocation
		hold           Reason
	}{
		"follows the next request": {
			original: Allocation{400, 800}, live: Allocation{400, 800}, target: 1000, want: Allocation{520, 1040},
		},
		"by the original ratio, not the live one": {
			original: Allocation{400, 800}, live: Allocation{400, 401}, target: 500, want: Allocation{500, 1000},
		},
		"is not added where there was none": {
			live: Allocation{400, 0}, target: 500, floor: 900, want: Allocation{500, 0},
		},
		"is not added where it was taken away": {
			original: Allocation{400, 800}, live: Allocation{400, 0}, target: 500, floor: 900, want: Allocation{500, 0},
		},
		"is not taken away where somebody added it, and bounds the request": {
			original: Allocation{400, 0}, live: Allocation{400, 450}, target: 500, floor: 900, want: Allocation{450, 450},
		},
		"left alone, bounds the request": {
			original: Allocation{400, 450}, live: Allocation{400, 450}, target: 500, floor: 900, stay: true, want: Allocation{450, 450},
		},
		"left alone and already bounding it": {
			original: Allocation{400, 400}, live: Allocation{400, 400}, target: 500, stay: true, want: Allocation{400, 400}, hold: SmallChange,
		},
		"stays with a held request": {
			original: Allocation{400, 800}, live: Allocation{400, 700}, target: 420, want: Allocation{400, 700}, hold: SmallChange,
		},
		"is raised to its floor, though the request is held": {
			original: Allocation{400, 800}, live: Allocation{400, 700}, target: 420, floor: 900, want: Allocation{400, 900}, hold: SmallChange,
		},
		"is raised to its floor, though the request may not be lowered": {
			original: Allocation{400, 800}, live: Allocation{400, 700}, target: 200, floor: 900, want: Allocation{400, 900}, hold: DecreaseNotAllowed,
		},
		"is raised to its floor without a target": {
			original: Allocation{400, 800}, live: Allocation{400, 700}, floor: 900, want: Allocation{400, 900},
		},
		"at its floor, without a target": {
			original: Allocation{400, 800}, live: Allocation{400, 900}, floor: 900, want: Allocation{400, 900},
		},
		"above the step's cap, where its floor is": {
			original: Allocation{400, 800}, live: Allocation{400, 800}, target: 1000, floor: 5000, want: Allocation{520, 5000},
		},
		"is lowered no further than its floor": {
			original: Allocation{400, 800}, live: Allocation{400, 800}, target: 300, floor: 700, decrease: true, want: Allocation{300, 700},
		},
		"is not lowered without leave, though the request grows": {
			original: Allocation{400, 800}, live: Allocation{400, 1500}, target: 500, want: Allocation{500, 1500},
		},
		"is lowered with leave": {
			original: Allocation{400, 800}, live: Allocation{400, 1500}, target: 500, decrease: true, want: Allocation{500, 1000},
		},
		"equal to the request, stays equal": {
			original: Allocation{400, 400}, live: Allocation{400, 400}, target: 500, want: Allocation{500, 500},
		},
		"equal to the request, takes it along to the floor": {
			original: Allocation{400, 400}, live: Allocation{400, 400}, target: 410, floor: 900, want: Allocation{900, 900},
		},
		"equal to the request, takes it along without a target": {
			original: Allocation{400, 400}, live: Allocation{400, 400}, floor: 900, want: Allocation{900, 900},
		},
		"equal to the request, but its floor is above the maximum": {
			original: Allocation{400, 400}, live: Allocation{400, 400}, target: 600, floor: 900, highest: 800,
			want: Allocation{400, 400}, hold: FloorAboveMaximum,
		},
		"equal to the request, and its floor is at the maximum": {
			original: Allocation{400, 400}, live: Allocation{400, 400}, target: 600, floor: 900, highest: 900, want: Allocation{900, 900},
		},
		"equal to the request only now, gets its ratio back": {
			original: Allocation{400, 800}, live: Allocation{400, 400}, target: 500, want: Allocation{500, 1000},
		},
		"without a request, follows as equal": {
			original: Allocation{0, 400}, live: Allocation{0, 400}, target: 500, want: Allocation{500, 500},
		},
		"without a request, is left as it is where nothing changes": {
			original: Allocation{0, 400}, live: Allocation{0, 400}, target: 410, want: Allocation{0, 400}, hold: SmallChange,
		},
		"not set so far": {target: 600, floor: 900, want: Allocation{600, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			m := Move{
				Live: Size{Memory: inMi(c.live)}, Original: Size{Memory: inMi(c.original)}, Target: Size{Memory: {Request: c.target * mi}},
				MemoryLimitFloor: c.floor * mi, Settings: builtIn(),
			}
			m.Settings.Of[Memory].LimitsFollow, m.Settings.Of[Memory].AllowDecrease = !c.stay, c.decrease
			m.Settings.Of[Memory].MaxAllowed = c.highest * mi
			change := NextStep(m)
			assert.Equal(t, Size{Memory: inMi(c.want)}, change.Next, "%+v", change.Steps)
			var held Reason
			for _, hold := range change.Holds {
				held = hold.Reason
			}
			assert.Equal(t, c.hold, held)
		})
	}
}

func TestNextStepCPUHasNoLimitFloor(t *testing.T) {
	m := cpuMove(500, 250)
	m.Original[CPU].Limit, m.Live[CPU].Limit, m.MemoryLimitFloor = 1000, 1000, 5000
	assert.Equal(t, Allocation{Request: 250, Limit: 500}, NextStep(m).Next[CPU])
}

// A memory limit may not follow its request at once: it is lowered in a patch of its own, and not right after a start.
func TestALimitThatWasLeftBehindCatchesUp(t *testing.T) {
	original := Allocation{Request: 512, Limit: 1024}
	move := func(live Allocation, maxChange int) Move {
		m := Move{Target: Size{Memory: inMi(Allocation{Request: 130, Limit: 260})}, MemoryLimitFloor: 110 * mi}
		m.Live[Memory], m.Original[Memory] = inMi(live), inMi(original)
		m.Settings.Of[Memory] = ResourceSettings{MaxChangePercent: maxChange, LimitsFollow: true, AllowDecrease: true}
		return m
	}
	tests := map[string]struct {
		live      Allocation
		maxChange int
		want      Allocation
	}{
		"all the way":                     {Allocation{130, 1024}, 1000, Allocation{130, 260}},
		"by one capped step":              {Allocation{130, 1024}, 50, Allocation{130, 512}},
		"within the dead band":            {Allocation{130, 280}, 1000, Allocation{130, 280}},
		"the ratio is the live request's": {Allocation{135, 1024}, 1000, Allocation{135, 270}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			change := NextStep(move(test.live, test.maxChange))
			assert.Equal(t, inMi(test.want), change.Next[Memory])
		})
	}
	held := move(Allocation{130, 1024}, 1000)
	held.Settings.Of[Memory].AllowDecrease = false
	assert.Equal(t, inMi(Allocation{130, 1024}), NextStep(held).Next[Memory], "not without allowDecrease")
}

func TestNoStepRaisesALimitAboveTheLargestNode(t *testing.T) {
	move := func(original, live Size, target Size, floor Amount) Move {
		return Move{Live: live, Original: original, Target: target, MemoryLimitFloor: floor, Settings: builtIn(), Largest: [2]Amount{64_000, 256 * 1024 * mi}}
	}
	small := Size{CPU: {Request: 20, Limit: 1000}, Memory: {Request: 512 * mi, Limit: 1024 * mi}}
	for name, c := range map[string]struct {
		move        Move
		cpu, memory Amount
	}{
		"a floor of 11 TiB":          {move(small, small, Size{}, 11*1024*1024*mi), 1000, 256 * 1024 * mi},
		"a placeholder request":      {move(small, Size{CPU: {Request: 9000, Limit: 64_000}, Memory: small[Memory]}, Size{CPU: {Request: 9900}}, 0), 19_800, 1024 * mi},
		"twice the request above it": {move(small, Size{CPU: {Request: 36_000, Limit: 60_000}, Memory: small[Memory]}, Size{CPU: {Request: 40_000}}, 0), 64_000, 1024 * mi},
		"an original limit above it": {move(Size{CPU: {Request: 20, Limit: 100_000}, Memory: small[Memory]}, Size{CPU: {Request: 20, Limit: 100_000}, Memory: small[Memory]}, Size{CPU: {Request: 30}}, 0), 100_000, 1024 * mi},
	} {
		t.Run(name, func(t *testing.T) {
			next := NextStep(c.move).Next
			assert.Equal(t, []Amount{c.cpu, c.memory}, []Amount{next[CPU].Limit, next[Memory].Limit})
		})
	}
}
