package replicas

import (
	"math"
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/assert"
)

var usual = Scaler{Min: 2, Max: 10, Target: 70, Up: DefaultTolerance, Down: DefaultTolerance}

func TestDesired(t *testing.T) {
	for _, c := range []struct {
		what    string
		fleet   Fleet
		request float64
		want    int32
	}{
		{"at its target", Fleet{Current: 4, Ready: 4, Usage: 70}, 100, 4},
		{"within the tolerance", Fleet{Current: 4, Ready: 4, Usage: 77}, 100, 4},
		{"above it", Fleet{Current: 4, Ready: 4, Usage: 78}, 100, 5},
		{"half of the request: twice the utilization", Fleet{Current: 4, Ready: 4, Usage: 78}, 50, 9},
		{"no more than Max", Fleet{Current: 4, Ready: 4, Usage: 780}, 100, 10},
		{"no fewer than Min", Fleet{Current: 4, Ready: 4, Usage: 1}, 100, 2},
		{"unready pods are idle when it scales out", Fleet{Current: 4, Ready: 2, Unready: 2, Usage: 160}, 100, 5},
		{"a missing pod is busy when it scales in", Fleet{Current: 4, Ready: 3, Missing: 1, Usage: 35}, 100, 3},
		{"a missing pod changes nothing at the target", Fleet{Current: 4, Ready: 2, Missing: 1, Usage: 70}, 100, 4},
		{"the mean of whole numbers loses nothing", Fleet{Current: 10, Ready: 10, Usage: 3.3}, 2.2, 10},
		{"more than Max", Fleet{Current: 12, Ready: 12, Usage: 1}, 100, 10},
		{"fewer than Min", Fleet{Current: 1, Ready: 1, Usage: 780}, 100, 2},
		{"0 replicas disable the HPA", Fleet{Usage: 70}, 100, 0},
		{"nothing is known", Fleet{Current: 4}, 100, 4},
	} {
		assert.Equal(t, c.want, usual.Desired(c.fleet, c.request), c.what)
	}
}

// TestKeep: every request of the range keeps the number for every usage of every span, and the first one outside does not.
func TestKeep(t *testing.T) {
	quiet := Span{Ready: 2, Least: 10, Greatest: 60}
	kept := usual.Keep([]Span{quiet}, 1000)
	assert.InDelta(t, 100*60/78., kept.Least, 1e-9, "77 % are within the tolerance, 78 % are not")
	assert.True(t, math.IsInf(kept.Greatest, 1))
	assert.EqualValues(t, [2]int32{2, 3}, [2]int32{kept.Below.Asked, kept.Below.Instead})

	crossing := usual.Keep([]Span{quiet, {Ready: 4, Least: 600, Greatest: 900}}, 1000)
	assert.Equal(t, [2]float64{1000, 1000}, [2]float64{crossing.Least, crossing.Greatest}, "the usage of the span leads to two numbers already")
	tiny := Scaler{Min: 1, Max: 2, Target: 1}.Keep([]Span{{Ready: 2, Least: 1e9, Greatest: 1e9}}, 1e9)
	assert.InEpsilon(t, 2*100*1e9/math.MaxInt32, tiny.Least, 1e-6, "with less, the number of replicas overflows before it is compared with Max")

	assert.Equal(t, Kept{}, usual.Keep([]Span{quiet}, 0), "nothing is proven without a request")
	for _, impossible := range []Span{{Ready: 2, Least: math.NaN(), Greatest: 1}, {Ready: 2, Least: 2, Greatest: 1}, {Ready: 2, Least: -1},
		{Ready: 2, Greatest: math.Inf(1)}, {Ready: 2, Unready: -1}, {Ready: math.MaxInt32, Unready: math.MaxInt32}} {
		kept := usual.Keep([]Span{quiet, impossible}, 1000)
		assert.Equal(t, [2]float64{1000, 1000}, [2]float64{kept.Least, kept.Greatest}, "nothing is proven by %+v", impossible)
	}
}

func TestKeepHoldsEverywhere(t *testing.T) {
	check := func(ready, unready uint8, min8, room, target uint8, least, width uint16, request uint16, at, mix uint8) bool {
		s := Scaler{Min: 1 + int32(min8%8), Target: 1 + int32(target%120), Up: DefaultTolerance, Down: DefaultTolerance}
		s.Max = s.Min + int32(room%8)
		span := Span{Ready: 1 + int32(ready%12), Unready: int32(unready % 3), Least: float64(least % 2000)}
		span.Greatest = span.Least + float64(width%50)
		now := 1 + float64(request%2000)
		kept := s.Keep([]Span{span}, now)
		if !(kept.Least <= now && now <= kept.Greatest) {
			return false
		}
		fleet := Fleet{Current: span.Ready + span.Unready, Ready: span.Ready, Unready: span.Unready,
			Usage: span.Least + (span.Greatest-span.Least)*float64(at)/255}
		other := kept.Least + (math.Min(kept.Greatest, 1e5)-kept.Least)*(1+float64(mix))/256
		return kept.Least == kept.Greatest || s.Desired(fleet, now) == s.Desired(fleet, other)
	}
	assert.NoError(t, quick.Check(check, &quick.Config{MaxCount: 200_000}))
}

func TestWithMargin(t *testing.T) {
	for _, c := range []struct {
		what            string
		kept            Kept
		least, greatest float64
	}{
		{"smaller on both sides", Kept{Least: 500, Greatest: 2000}, 550, 2000 / 1.1},
		{"no greatest", Kept{Least: 500, Greatest: math.Inf(1)}, 550, math.Inf(1)},
		{"nothing below the request", Kept{Least: 950, Greatest: 2000}, 1000, 2000 / 1.1},
		{"nothing above it", Kept{Least: 500, Greatest: 1050}, 550, 1000},
		{"nothing", Kept{Least: 1000, Greatest: 1000}, 1000, 1000},
	} {
		kept := c.kept.WithMargin(1000, 0.1)
		assert.InEpsilon(t, c.least, kept.Least, 1e-7, c.what)
		if math.IsInf(c.greatest, 1) {
			assert.True(t, math.IsInf(kept.Greatest, 1), c.what)
		} else {
			assert.InEpsilon(t, c.greatest, kept.Greatest, 1e-7, c.what)
		}
		assert.True(t, c.kept.Least == c.kept.Greatest || kept.Least < 1000 && 1000 <= kept.Greatest, c.what)
	}
}

// TestDesiredNeverFalls: more usage never leads to fewer replicas. Keep relies on it.
func TestDesiredNeverFalls(t *testing.T) {
	check := func(ready, unready, target, up, down uint8, less, more uint16) bool {
		s := Scaler{Min: 1, Max: math.MaxInt32, Target: 1 + int32(target), Up: float64(up) / 255, Down: float64(down) / 255}
		f := Fleet{Ready: 1 + int32(ready%40), Unready: int32(unready % 20)}
		f.Current = f.Ready + f.Unready
		low, high := int64(min(less, more)), int64(max(less, more))
		return s.desired(&f, low) <= s.desired(&f, high)
	}
	assert.NoError(t, quick.Check(check, &quick.Config{MaxCount: 200_000}))
}

// BenchmarkKeep takes 38 µs, of which the search for the three plateaus takes less than 1 µs.
func BenchmarkKeep(b *testing.B) {
	spans := make([]Span, 400)
	for i := range spans {
		spans[i] = Span{Ready: 2 + int32(i%3), Least: 10, Greatest: 60 + float64(i%7)}
	}
	s := Scaler{Min: 5, Max: 50, Target: 70, Up: DefaultTolerance, Down: DefaultTolerance}
	b.ReportAllocs()
	for b.Loop() {
		s.Keep(spans, 1000)
	}
}
