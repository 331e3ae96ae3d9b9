package recommender_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "attune.io/attune/recommender"
)

// greatest is the largest possible amount.
const greatest = Amount(1 << 53)

func TestMoreOverheadIsNeverLess(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 50 {
		in, _ := randomInput(rng)
		last := Target(in).Target
		for range 20 {
			for _, resource := range Resources {
				in.Settings.Of[resource].OverheadPercent += 30 * rng.Float64()
			}
			next := Target(in).Target
			for _, resource := range Resources {
				assert.GreaterOrEqual(t, next[resource].Request, last[resource].Request)
			}
			last = next
		}
	}
}

// Usage that grows in all steps never lowers the target. Usage that grows in only some steps may lower it if the burst
// becomes smaller; without the burst rule it never does.
func TestMoreUsageIsNeverLess(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 50 {
		in, steps := randomInput(rng)
		factor := 1 + rng.Float64()
		more := slices.Clone(steps)
		for i := range more {
			more[i].CPUCores *= factor
			more[i].MemoryBytes *= factor
		}
		assertNotLess(t, in, more)

		for _, resource := range Resources {
			in.Settings.Of[resource].BurstSensitivity = 0
		}
		more = slices.Clone(steps)
		for i := range more {
			more[i].CPUCores += rng.Float64()
			more[i].MemoryBytes *= 1 + rng.Float64()
		}
		assertNotLess(t, in, more)
	}
}

func assertNotLess(t *testing.T, in Input, more []StepUsage) {
	t.Helper()
	before := Target(in).Target
	in.Profile = NewProfile(more, in.Settings.QueryStep)
	after := Target(in).Target
	for _, resource := range Resources {
		assert.GreaterOrEqual(t, after[resource].Request, before[resource].Request, resource)
	}
}

// A container at its target does not change.
func TestTargetIsAFixedPoint(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 200 {
		in, _ := randomInput(rng)
		in.Original = randomSize(rng)
		r := Recommend(in)
		at := Move{Target: applicable(r), CPULimitFloor: r.CPULimitFloor, MemoryLimitFloor: r.MemoryLimitFloor, OOMFloor: max(in.Floors[Memory].Amount, in.Killed.Amount), Live: r.Target, Original: in.Original, Settings: in.Settings}
		if len(r.Holds) == 0 {
			require.Equal(t, r.Target, NextStep(at).Next, "%+v", in.Original)
		}
		again := in
		again.Original = in.Original
		require.Equal(t, r, Recommend(again), "the same input, the same answer")
	}
}

func randomSize(rng *rand.Rand) Size {
	var size Size
	for _, resource := range Resources {
		request := Amount(1 + rng.IntN(2e9))
		size[resource] = pick(rng,
			Allocation{}, Allocation{Request: request}, Allocation{Request: request, Limit: request},
			Allocation{Request: request, Limit: request + Amount(rng.IntN(2e9))}, Allocation{Limit: request})
	}
	return size
}

// FuzzRecommend runs arbitrary input through the whole computation from usage to the next size.
func FuzzRecommend(f *testing.F) {
	f.Add(uint64(1), 0.2, 5e8, 20.0, 0.1, uint16(2016), uint8(95), int64(0), int64(0), 50)
	f.Add(uint64(2), nan, -1.0, -150.0, nan, uint16(48), uint8(0), int64(500), int64(4000), 0)
	f.Add(uint64(3), math.Inf(1), 1e308, math.Inf(1), -1.0, uint16(0), uint8(255), int64(4000), int64(500), 1000)
	f.Add(uint64(4), 1e12, 9e15, 1e6, 1e3, uint16(100), uint8(50), int64(1), int64(1), -5)
	f.Add(uint64(5), 0.0, 0.0, 0.0, 0.0, uint16(100), uint8(99), int64(0), int64(1), 30)
	f.Fuzz(func(t *testing.T, seed uint64, cpu, memory, overhead, sensitivity float64, points uint16, percentile uint8, low, high int64, change int) {
		rng := rand.New(rand.NewPCG(seed, seed))
		in := Input{Container: "app", Settings: builtIn(), Now: now.Add(time.Duration(rng.IntN(100)) * time.Minute), Original: randomSize(rng)}
		for _, resource := range Resources {
			s := &in.Settings.Of[resource]
			s.Percentile, s.OverheadPercent, s.BurstSensitivity, s.MaxChangePercent = int(percentile), overhead, sensitivity, change
			s.MinAllowed, s.MaxAllowed = Amount(low&math.MaxInt32), Amount(high&math.MaxInt32)
			s.LimitsFollow, s.AllowDecrease = rng.IntN(2) == 0, rng.IntN(2) == 0
			in.Floors[resource] = Floor{Amount: pick(rng, 0, Amount(rng.IntN(4e9))), Reason: "oomkill"}
		}
		steps := flat(int(points%3000), cpu, memory)
		for i := range steps {
			steps[i].CPUCores *= pick(rng, 1, rng.Float64(), 10*rng.Float64(), 0)
			steps[i].MemoryBytes *= pick(rng, 1, rng.Float64(), 0)
			steps[i].CPUPeak = pick(rng, nan, cpu*5)
		}
		in.Profile = NewProfile(steps, in.Settings.QueryStep)

		r := Recommend(in)
		assertSound(t, in, r)
		assertSoundChange(t, in, r, randomSize(rng))
	})
}

func assertSound(t *testing.T, in Input, r Recommendation) {
	t.Helper()
	require.True(t, r.Confidence >= 0 && r.Confidence <= 1, "confidence %v", r.Confidence)
	for _, resource := range Resources {
		target, points := r.Target[resource], in.Profile.Of[resource].Points
		if points < in.Settings.MinimumDataPoints {
			require.Zero(t, target)
			require.NotEmpty(t, r.Holds)
			continue
		}
		require.Positive(t, target.Request)
		require.LessOrEqual(t, target.Request, greatest)
		if highest := in.Settings.Of[resource].MaxAllowed; highest > 0 {
			require.LessOrEqual(t, target.Request, highest)
		}
		if target.Limit > 0 {
			require.LessOrEqual(t, target.Request, target.Limit)
		}
		assertBoundedLimit(t, in, r, resource)
	}
	assertReadable(t, r.Steps, r.Holds)
	want := r
	want.Steps = nil
	require.Equal(t, want, Target(in))
}

// assertBoundedLimit: a limit that follows by a ratio is at most the greatest of the original limit, twice the request
// and its minimum, which is 1.1 times the peak or learned. Of these only what was learned raises it above maxAllowed, apart
// from the unit that keeps it above its request.
func assertBoundedLimit(t *testing.T, in Input, r Recommendation, resource Resource) {
	t.Helper()
	target, original, s := r.Target[resource], in.Original[resource], in.Settings.Of[resource]
	if !s.LimitsFollow || original.Limit == 0 || original.Request == 0 || original.Request == original.Limit {
		return
	}
	peak, least, unit := (in.Profile.Of[resource].Peak * 1.1).RoundUp(), Amount(10), Amount(1)
	if resource == Memory {
		peak, least, unit = peak+mi, max(in.Floors[Memory].Amount, 16*mi)+mi, mi
	}
	least = max(least, original.Limit, target.Request+unit)
	require.LessOrEqual(t, target.Limit, max(least, peak, 2*target.Request))
	if s.MaxAllowed > 0 {
		require.LessOrEqual(t, target.Limit, max(least, s.MaxAllowed))
	}
}

func assertReadable(t *testing.T, steps []Step, holds []Hold) {
	t.Helper()
	for _, step := range steps {
		assertSentence(t, step.Reason)
	}
	for _, hold := range holds {
		require.NotEmpty(t, hold.Reason)
		assertSentence(t, hold.Message)
	}
}

func assertSentence(t *testing.T, text string) {
	t.Helper()
	require.True(t, text != "" && utf8.ValidString(text) && strings.TrimSpace(text) == text, "%q", text)
}

func assertSoundChange(t *testing.T, in Input, r Recommendation, live Size) {
	t.Helper()
	m := Move{Target: applicable(r), CPULimitFloor: r.CPULimitFloor, MemoryLimitFloor: r.MemoryLimitFloor, OOMFloor: max(in.Floors[Memory].Amount, in.Killed.Amount), Live: live, Original: in.Original, Settings: in.Settings}
	change := NextStep(m)
	assertReadable(t, change.Steps, change.Holds)
	for _, resource := range Resources {
		from, next := live[resource], change.Next[resource]
		require.Equal(t, from.Limit > 0, next.Limit > 0, "a limit is neither added nor taken away: %+v", change)
		if next.Limit > 0 {
			require.LessOrEqual(t, next.Request, next.Limit)
		}
		if from.Request > 0 {
			require.Positive(t, next.Request)
		}
		if resource == Memory && !in.Settings.Of[Memory].AllowDecrease {
			require.GreaterOrEqual(t, next.Request, from.Request)
			require.GreaterOrEqual(t, next.Limit, from.Limit)
		}
		assertCapped(t, in.Settings.Of[resource], from, next, in.Original[resource])
	}
	assertLimitFloor(t, m, change)
}

// assertCapped: only a limit's floor may move a set request further than the cap.
func assertCapped(t *testing.T, s ResourceSettings, from, next, original Allocation) {
	t.Helper()
	if from.Request == 0 || from.Request == from.Limit && original.Limit > 0 {
		return
	}
	most := max(1, float64(from.Request)*float64(s.MaxChangePercent)/100)
	require.LessOrEqual(t, math.Abs(float64(next.Request-from.Request)), most)
}

func assertLimitFloor(t *testing.T, m Move, change Change) {
	t.Helper()
	follows := m.Settings.Of[Memory].LimitsFollow && m.Original[Memory].Limit > 0 && m.Live[Memory].Limit > 0
	if highest := m.Settings.Of[Memory].MaxAllowed; follows && (highest == 0 || m.MemoryLimitFloor <= highest) {
		require.GreaterOrEqual(t, change.Next[Memory].Limit, m.MemoryLimitFloor)
	}
}
