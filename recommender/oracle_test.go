package recommender_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	. "attune.io/attune/recommender"
)

// oracle implements the documented algorithm again, as plainly as possible: floats, no types, the whole chain in one
// function. It shares only the steps of history with the package.
func oracle(steps []StepUsage, of func(StepUsage) float64, memory bool, s Settings, r ResourceSettings, floor float64) float64 {
	var measured []StepUsage
	peak := 0.0
	for _, step := range steps {
		if v := of(step); v >= 0 {
			measured = append(measured, step)
			peak = max(peak, v)
		}
	}
	x := quantileOf(measured, anyHour, float64(r.Percentile)/100, of)
	for hour := range 24 {
		if v, any := quantileOfHour(measured, hour, float64(r.Percentile)/100, of); any {
			x = max(x, v)
		}
	}
	x = up(x * (1 + r.OverheadPercent/100))
	if p95 := quantileOf(measured, anyHour, 0.95, of); peak > 3*p95*(1+1e-9) {
		x = up(x * (1 + r.BurstSensitivity*math.Log2(peak/p95)))
	}
	days := measured[len(measured)-1].At.Sub(measured[0].At).Hours()/24 + s.QueryStep.Hours()/24
	c := min(days, math.Sqrt(float64(len(measured))/24)) / min(7, s.HistoryWindow.Hours()/24)
	c = min(max(c, 0), 1)
	x = up(x * (1 + (1-c)*(1-c)))
	if memory {
		x = max(x, up(peak))
	}
	x = max(x, floor)
	x = max(x, float64(r.MinAllowed), 1)
	if r.MaxAllowed > 0 {
		x = min(x, float64(r.MaxAllowed))
	}
	if !memory {
		return x
	}
	return wholeBytes(x, float64(r.MinAllowed), float64(r.MaxAllowed))
}

// wholeBytes rounds memory to MiB, or to KiB below 16 MiB. It rounds up, or down if the result would exceed the
// maximum. The amount stays exact if rounding down would be below the minimum.
func wholeBytes(x, low, high float64) float64 {
	unit := 1048576.0
	if x < 16777216 {
		unit = 1024
	}
	if above := math.Ceil(x/unit) * unit; high == 0 || above <= high {
		return above
	}
	if below := math.Floor(x/unit) * unit; below >= max(low, 1) {
		return below
	}
	return x
}

func up(x float64) float64 { return math.Ceil(x - 1e-6) }

func quantileOfHour(steps []StepUsage, hour int, q float64, of func(StepUsage) float64) (float64, bool) {
	for _, s := range steps {
		if s.At.UTC().Hour() == hour {
			return quantileOf(steps, hour, q, of), true
		}
	}
	return 0, false
}

func TestAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	millicores := func(s StepUsage) float64 { return s.CPUCores * 1000 }
	var bursts, floors, clamped int
	for i := range 400 {
		in, steps := randomInput(rng)
		r := Recommend(in)
		for _, resource := range Resources {
			of, settings := millicores, in.Settings.Of[resource]
			if resource == Memory {
				of = memoryOf
			}
			want := oracle(steps, of, resource == Memory, in.Settings, settings, float64(in.Floors[resource].Amount))
			assert.InDelta(t, want, float64(r.Target[resource].Request), 1e-9*want, "case %d, %v: %+v", i, resource, r.Steps)
		}
		for _, step := range r.Steps {
			moved := step.Before != step.After
			bursts += count(moved && step.Name == "burst")
			floors += count(moved && step.Name == "floor")
			clamped += count(moved && step.Name == "bounds")
		}
	}
	assert.Greater(t, min(bursts, floors, clamped), 30, "every rule has to have had something to do: %d %d %d", bursts, floors, clamped)
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// randomInput is a history of some shape with some settings, always with enough data and no limits.
func randomInput(rng *rand.Rand) (Input, []StepUsage) {
	settings := builtIn()
	settings.QueryStep = pick(rng, time.Minute, 5*time.Minute, time.Hour)
	settings.HistoryWindow = pick(rng, 24*time.Hour, 168*time.Hour, 720*time.Hour)
	settings.MinimumDataPoints = 1
	for _, resource := range Resources {
		r := &settings.Of[resource]
		r.Percentile = pick(rng, 50, 90, 95, 99)
		r.OverheadPercent = pick(rng, 0, 10, 12.5, 20, 150)
		r.BurstSensitivity = pick(rng, 0, 0.1, 0.2)
		if rng.IntN(3) == 0 {
			r.MinAllowed = Amount(rng.IntN(1000)) + 1
			r.MaxAllowed = r.MinAllowed + Amount(rng.IntN(1e9))
		}
	}
	steps := randomSteps(rng, settings.QueryStep)
	in := Input{Container: "app", Profile: NewProfile(steps, settings.QueryStep), Settings: settings, Now: now}
	if rng.IntN(3) == 0 {
		in.Floors[CPU] = Floor{Amount: Amount(rng.IntN(2000)), Reason: "throttle"}
		in.Floors[Memory] = Floor{Amount: Amount(rng.IntN(2e9)), Reason: "oomkill"}
	}
	return in, steps
}

// randomSteps have a daily pattern, noise, gaps and rare spikes.
func randomSteps(rng *rand.Rand, step time.Duration) []StepUsage {
	steps := make([]StepUsage, 1+rng.IntN(3000))
	daily, spike, missing := rng.Float64(), 1+15*rng.Float64(), pick(rng, 0, 0.1)
	for i := range steps {
		at := now.Add(time.Duration(i-len(steps)) * step)
		level := 1 + daily*math.Sin(float64(at.Hour())/24*2*math.Pi) + 0.1*rng.Float64()
		if rng.IntN(500) == 0 {
			level *= spike
		}
		steps[i] = StepUsage{At: at, CPUCores: 0.2 * level, MemoryBytes: 5e8 * level, CPUPeak: nan, MemoryPeak: nan}
		if i > 0 && rng.Float64() < missing {
			steps[i].CPUCores, steps[i].MemoryBytes = nan, nan
		}
	}
	return steps
}

func pick[T any](rng *rand.Rand, choices ...T) T { return choices[rng.IntN(len(choices))] }
