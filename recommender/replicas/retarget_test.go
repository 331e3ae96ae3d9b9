package replicas

import (
	"math"
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/assert"
)

// TestRetarget: the target follows the request within its bounds, as far as no threshold comes to where the usage was.
func TestRetarget(t *testing.T) {
	const infinite = 1e300
	original := Threshold{Target: 60, Request: 1000}
	for _, c := range []struct {
		what            string
		original        Threshold
		spans           []Span
		least, greatest float64
	}{
		{"a busy fleet at its least: the target follows to 90 %", original, []Span{{Ready: 2, Greatest: 600}}, 60_000 / 90., infinite},
		{"a quiet one: below, the target stays at 90 %", original, []Span{{Ready: 2, Least: 10, Greatest: 200}}, 20_000 / 100. * 1.2, infinite},
		{"no history", original, nil, 0, infinite},
		{"unready pods only", original, []Span{{Unready: 2}}, 0, infinite},
		{"66 of 60 % and 68 of 62 % are within the tolerance, 70 of 63 % and 65 of 59 % are not", original,
			[]Span{{Ready: 2, Greatest: 662 / 1.05}}, 60_000 / 62.5, 60_000 / 59.5},
		{"the history crosses the threshold", original, []Span{{Ready: 4, Least: 600, Greatest: 700}}, 1000, 1000},
		{"with the margin, the history crosses the threshold", original, []Span{{Ready: 4, Least: 590, Greatest: 640}}, 1000, 1000},
		{"the original target is above the greatest", Threshold{Target: 95, Request: 1000}, []Span{{Ready: 2, Greatest: 100}}, 10_000 / 105. * 1.2, infinite},
		{"below the least", Threshold{Target: 20, Request: 1000}, []Span{{Ready: 10, Least: 250, Greatest: 300}}, 1.2 * 30_000 / math.MaxInt32, 25_000 / 18. / 1.2},
		{"an original target with too many others below it", Threshold{Target: math.MaxInt32, Request: 1000}, nil, 1000, 1000},
		{"an impossible span", original, []Span{{Ready: 2, Least: 2, Greatest: 1}}, 1000, 1000},
		{"not a number", original, []Span{{Ready: 2, Least: math.NaN()}}, 1000, 1000},
		{"no request", Threshold{Target: 60}, nil, 0, 0},
		{"no target", Threshold{Request: 1000}, nil, 0, 0},
		{"a request that is not a number", Threshold{Target: 60, Request: math.NaN()}, nil, 0, 0},
		{"a request without end", Threshold{Target: 60, Request: math.Inf(1)}, nil, 0, 0},
	} {
		kept := usual.Retarget(c.original, c.spans)
		assert.InEpsilon(t, 1+c.least, 1+kept.Least, 1e-7, c.what)
		assert.InEpsilon(t, 1+c.greatest, 1+min(kept.Greatest, infinite), 1e-7, c.what)
	}
	crossing := usual.Retarget(original, []Span{{Ready: 4, Least: 600, Greatest: 700}})
	assert.Equal(t, [2]int32{4, 5}, [2]int32{crossing.Below.Asked, crossing.Below.Instead})
}

// TestRetargetHoldsEverywhere: with any mean request of the range and its target, the number stays for all usage.
func TestRetargetHoldsEverywhere(t *testing.T) {
	moved := 0
	check := func(ready, unready uint8, min8, room, target uint8, level, width uint16, request uint16, at, mix uint8) bool {
		s := Scaler{Min: 1 + int32(min8%8), Up: DefaultTolerance, Down: DefaultTolerance}
		s.Max = s.Min + int32(room%8)
		original := Threshold{Target: 20 + int32(target%80), Request: 1 + float64(request%2000)}
		span := Span{Ready: 1 + int32(ready%12), Unready: int32(unready % 3), Least: original.Usage() * float64(level) / 40_000}
		span.Greatest = span.Least * (1 + float64(width%200)/1000)
		kept := s.Retarget(original, []Span{span})
		if !(kept.Least <= original.Request && original.Request <= kept.Greatest) {
			return false
		}
		if kept.Least == kept.Greatest {
			return true
		}
		moved++
		fleet := Fleet{Current: span.Ready + span.Unready, Ready: span.Ready, Unready: span.Unready,
			Usage: span.Least + (span.Greatest-span.Least)*float64(at)/255}
		other := kept.Least + (min(kept.Greatest, 1e5)-kept.Least)*(1+float64(mix))/256
		before, after := s, s
		before.Target, after.Target = original.Target, original.At(other)
		return before.Desired(fleet, original.Request) == after.Desired(fleet, other)
	}
	assert.NoError(t, quick.Check(check, &quick.Config{MaxCount: 200_000}))
	assert.Greater(t, moved, 50_000)
}

// BenchmarkRetarget is of a history of many sizes of a fleet, all of which allow another request.
func BenchmarkRetarget(b *testing.B) {
	spans := make([]Span, 400)
	for i := range spans {
		spans[i] = Span{Ready: 2 + int32(i%12), Least: 640, Greatest: 650 + float64(i%7)}
	}
	s := Scaler{Min: 2, Max: 50, Up: DefaultTolerance, Down: DefaultTolerance}
	original := Threshold{Target: 60, Request: 1100}
	if kept := s.Retarget(original, spans); kept.Least > 66_000/90. {
		b.Fatalf("the target does not follow to its bound: %+v", kept)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Retarget(original, spans)
	}
}
