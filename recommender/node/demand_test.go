package node_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	. "attune.io/attune/recommender/node"
)

func TestBase(t *testing.T) {
	u := NewRecent()
	_, known := u.Base(cpu, noon)
	assert.False(t, known)

	// Every minute, like scrapes of a kubelet: 4 values of 100m, 4 of 200m and 3 of 900m; the 9th of 11 is P75 + ½.
	for i, usage := range []recommender.Usage{900, 100, 200, 100, 900, 200, 100, 200, 900, 100, 200} {
		u.Add(cpu, noon.Add(-time.Duration(i)*time.Minute), usage)
		u.Add(memory, noon.Add(-time.Duration(i)*2*time.Minute), recommender.Usage(mi)*usage)
	}
	base, known := u.Base(cpu, noon)
	assert.True(t, known)
	assert.Equal(t, recommender.Usage(550), base)
	base, _ = u.Base(memory, noon)
	assert.Equal(t, 550*recommender.Usage(mi), base)

	base, known = u.Base(cpu, noon.Add(5*time.Minute))
	assert.True(t, known)
	assert.Equal(t, recommender.Usage(725), base, "what is older than 10 minutes does not count: 6 are left")
	_, known = u.Base(cpu, noon.Add(6*time.Minute))
	assert.False(t, known, "less than half of the window is measured")
	_, known = u.Base(memory, noon.Add(14*time.Minute))
	assert.True(t, known, "memory: 30 minutes")
	_, known = u.Base(memory, noon.Add(17*time.Minute))
	assert.False(t, known)
}

func TestRecentIgnoresWhatIsNoUsage(t *testing.T) {
	u := NewRecent()
	for _, usage := range []recommender.Usage{-1, recommender.Usage(math.NaN()), recommender.Usage(math.Inf(-1))} {
		u.Add(cpu, noon, usage)
	}
	_, known := u.Base(cpu, noon)
	assert.False(t, known)
	for age := range 6 {
		u.Add(cpu, noon.Add(-time.Duration(age)*time.Minute), recommender.Usage(math.Inf(1)))
	}
	base, known := u.Base(cpu, noon)
	assert.True(t, known)
	assert.Less(t, base, recommender.Usage(5e6), "the greatest that there is room for")
	u.Add(cpu, noon, 0)
	u.Add(cpu, noon.Add(-time.Hour), 7)
	again, _ := u.Base(cpu, noon)
	assert.Equal(t, base, again, "nor what is too old, and of half a minute the highest counts")
}

func TestMean(t *testing.T) {
	u := NewRecent()
	_, known := u.Mean(cpu, noon.Add(-time.Hour), noon)
	assert.False(t, known)
	for i, usage := range []recommender.Usage{900, 300, 100, 200, 100} {
		u.Add(cpu, noon.Add(-time.Duration(i)*30*time.Second), usage)
	}
	for _, c := range []struct {
		name string
		from time.Duration
		want float64
	}{
		{"all", -time.Hour, 320},
		{"from a sample on", -90 * time.Second, 375},
		{"a moment later", -90*time.Second + time.Nanosecond, 1300. / 3},
		{"the newest alone", -time.Nanosecond, 900},
	} {
		mean, known := u.Mean(cpu, noon.Add(c.from), noon)
		assert.True(t, known, c.name)
		assert.InDelta(t, c.want, float64(mean), 0.01, c.name)
	}
	mean, known := u.Mean(cpu, noon.Add(-time.Hour), noon.Add(-30*time.Second))
	assert.True(t, known)
	assert.InDelta(t, 175, float64(mean), 0.01, "what comes later does not count")
	_, known = u.Mean(cpu, noon.Add(time.Nanosecond), noon.Add(time.Minute))
	assert.False(t, known, "nothing was measured since")
	_, known = u.Mean(memory, noon.Add(-time.Hour), noon)
	assert.False(t, known)
}

// For samples in any order, the result is the plain percentile of the samples in the window.
func TestRecentAgainstPlainSamples(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	enough := 0
	for range 300 {
		type sample struct {
			at    time.Time
			usage recommender.Usage
		}
		var samples []sample
		// At most one in each half minute, in its middle.
		for slot := range 60 {
			if rng.IntN(3) > 0 {
				samples = append(samples, sample{noon.Add(-time.Duration(slot)*30*time.Second + 15*time.Second), recommender.Usage(rng.IntN(4000))})
			}
		}
		rng.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
		u := NewRecent()
		var values []recommender.Usage
		now := noon.Add(29 * time.Second)
		for _, s := range samples {
			u.Add(cpu, s.at, s.usage)
			if s.at.After(now.Add(-BaseCPUWindow - 29*time.Second)) {
				values = append(values, s.usage)
			}
		}
		slices.Sort(values)
		base, known := u.Base(cpu, now)
		if !known {
			require.Less(t, u.Measured(cpu, now), BaseCPUWindow/2)
			continue
		}
		enough++
		require.InDelta(t, float64(recommender.Quantile(values, 0.75)), float64(base), 1e-6)
	}
	assert.Greater(t, enough, 250)
}

// bursts are 100m, and 900m at one time before noon.
func bursts(at time.Duration) Span {
	burst := noon.Add(at)
	return func(from, to time.Time) (recommender.Usage, bool) {
		if from.Before(burst) && !to.Before(burst) {
			return 900, true
		}
		return 100, from.Before(noon)
	}
}

func TestPeakLooksAheadOnThePastDays(t *testing.T) {
	day := 24 * time.Hour
	for _, tc := range []struct {
		name string
		at   time.Duration
		want recommender.Usage
	}{
		{"now", 0, 900},
		{"within the last hour", -59 * time.Minute, 900},
		{"before it", -time.Hour, 100},
		{"yesterday, in the hour to come", -day + time.Minute, 900},
		{"at its end", -day + time.Hour, 900},
		{"a week ago, in the hour to come", -7*day + 30*time.Minute, 900},
		{"yesterday, before it", -day, 100},
		{"yesterday, after it", -day + 61*time.Minute, 100},
		{"8 days ago", -8*day + 30*time.Minute, 100},
	} {
		peak, known := Peak(bursts(tc.at), noon)
		assert.True(t, known)
		assert.Equal(t, tc.want, peak, tc.name)
		most, _ := Max7d(bursts(tc.at), noon)
		assert.Equal(t, tc.at > -7*day, most == 900, tc.name)
	}
	nothing := func(time.Time, time.Time) (recommender.Usage, bool) { return 0, false }
	_, known := Peak(nothing, noon)
	assert.False(t, known)
	peak, known := Peak(func(from, to time.Time) (recommender.Usage, bool) { return 300, to.Before(noon) }, noon)
	assert.True(t, known, "the past days are enough")
	assert.Equal(t, recommender.Usage(300), peak)
}

func TestDemandOfForecasts(t *testing.T) {
	for _, tc := range []struct {
		name  string
		f     Forecast
		want  Demand
		known bool
	}{
		{"both", Forecast{99.5, 200.1, true, true}, Demand{100, 201}, true},
		{"the peak is never below the base", Forecast{300, 200, true, true}, Demand{300, 300}, true},
		{"a pod that is too young asks for its peak", Forecast{0, 200, false, true}, Demand{200, 200}, true},
		{"without a past nothing is asked for", Forecast{100, 0, true, false}, Demand{}, false},
		{"zero would mean not set", Forecast{0, 0, true, true}, Demand{1, 1}, true},
	} {
		got, known := tc.f.Demand()
		assert.Equal(t, tc.want, got, tc.name)
		assert.Equal(t, tc.known, known, tc.name)
	}
	assert.Equal(t, Demand{200, 500}, Demand{100, 900}.Within(cpu, 200, 500))
	assert.Equal(t, Demand{100, 900}, Demand{100, 900}.Within(cpu, 0, 0))
	assert.Equal(t, Demand{100 * mi, 201 * mi}, Demand{100*mi - 5, 200*mi + 1}.Within(memory, 0, 0), "memory is in whole MiB")
	assert.Equal(t, Demand{100 * mi, 150 * mi}, Demand{100*mi - 5, 200*mi + 1}.Within(memory, mi, 150*mi+7), "not above what is allowed")
	assert.Equal(t, Demand{7, 7}, Unmeasured(7))
}

func TestSeedOf(t *testing.T) {
	c := Container{Of: [2]Demand{{Base: 100, Peak: 300}, {Base: 50 * mi, Peak: 200 * mi}}, Max7d: 220 * mi}
	assert.Equal(t, Seed{Request: Amounts{300, 200 * mi}, MemoryLimit: 440 * mi}, SeedOf(&c))
	c.OOM = 260 * mi
	assert.Equal(t, Seed{Request: Amounts{300, 200 * mi}, MemoryLimit: 520 * mi, MemoryLimitFloor: 260 * mi}, SeedOf(&c))
	assert.Equal(t, Seed{Request: Amounts{500, 0}}, SeedOf(&Container{Of: [2]Demand{cpu: {Base: 500, Peak: 300}}, Max7d: mi}), "what is not known is left alone")
}

// The size in the documentation of Recent, as rounded by the allocator.
func TestMemoryPerContainer(t *testing.T) {
	assert.LessOrEqual(t, bytesOf(func() any { return NewRecent() }), uint64(320))
}

// bytesOf is the memory of one of many such objects.
func bytesOf(create func() any) uint64 {
	const many = 1000
	kept := make([]any, many)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range kept {
		kept[i] = create()
	}
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return (after.TotalAlloc - before.TotalAlloc) / many
}

func BenchmarkBase(b *testing.B) {
	u := NewRecent()
	for i := range 60 {
		u.Add(cpu, noon.Add(-time.Duration(i)*30*time.Second), recommender.Usage(i*37%11))
	}
	b.ReportAllocs()
	for b.Loop() {
		u.Base(cpu, noon)
	}
}

func TestDayPeak(t *testing.T) {
	for _, tc := range []struct {
		name string
		at   time.Duration
		want recommender.Usage
	}{
		{"now", 0, 900},
		{"within 24 h", -24*time.Hour + time.Minute, 900},
		{"before them", -24 * time.Hour, 100},
	} {
		peak, known := Day(bursts(tc.at), noon)
		assert.True(t, known)
		assert.Equal(t, tc.want, peak, tc.name)
	}
}

func TestNewPodGetsTheDaysPeak(t *testing.T) {
	c := Container{Of: [2]Demand{{Base: 100, Peak: 300}, {Base: 50 * mi, Peak: 200 * mi}}, Day: Amounts{700, 250 * mi}, Max7d: 260 * mi}
	assert.Equal(t, Seed{Request: Amounts{700, 250 * mi}, MemoryLimit: 520 * mi}, SeedOf(&c), "not the coming hour's")
	c.Of[cpu].Base = 900
	assert.Equal(t, recommender.Amount(900), SeedOf(&c).Request[cpu], "nor less than the base")
	c.Least = Amounts{1000, 0}
	assert.Equal(t, recommender.Amount(1000), SeedOf(&c).Request[cpu], "nor than what is allowed")
}

// A base counts after half of its window was measured, at any sample rate.
func TestABaseCountsOnceHalfOfItsWindowWasMeasured(t *testing.T) {
	for _, every := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		for r, window := range [2]time.Duration{BaseCPUWindow, BaseMemoryWindow} {
			r := recommender.Resource(r)
			u := NewRecent()
			for age := time.Duration(0); age <= window; age += every {
				u.Add(r, noon.Add(age), 100)
				_, known := u.Base(r, noon.Add(age))
				assert.Equal(t, age >= window/2, known, "%v: %v, every %v", r, age, every)
				assert.InDelta(t, age.Seconds(), u.Measured(r, noon.Add(age)).Seconds(), 30)
			}
			_, known := u.Base(r, noon.Add(window+window/2-every))
			assert.True(t, known, "%v, every %v", r, every)
			_, known = u.Base(r, noon.Add(window+window/2+2*time.Minute))
			assert.False(t, known, "nor when half of it is over")
		}
	}
	// Two samples with a gap between them do not count the gap as measured.
	u := NewRecent()
	u.Add(cpu, noon.Add(-9*time.Minute), 100)
	u.Add(cpu, noon, 100)
	_, known := u.Base(cpu, noon)
	assert.False(t, known)
}
