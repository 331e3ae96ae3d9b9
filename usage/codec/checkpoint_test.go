package codec_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// most is the maximum size of a container's checkpoint.
const most = 2048

var noon = time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)

// container is a history with a daily pattern, noise and bursts.
func container(rng *rand.Rand, steps int, step time.Duration) codec.Checkpoint {
	h := codec.Checkpoint{Step: step, First: usage.StepOf(noon, step)}
	base, swing, noise := math.Exp(rng.Float64()*8-5), rng.Float64(), rng.Float64()*0.5
	memory := math.Exp(rng.Float64()*9) * (1 << 20)
	for i := range steps {
		hour := float64(i) * step.Hours()
		v := base * (1 + swing*math.Sin(hour/24*2*math.Pi)) * math.Exp(noise*rng.NormFloat64())
		if rng.Float64() < 0.002 {
			v *= 10
		}
		memory *= math.Exp(0.002 * rng.NormFloat64())
		h.CPU, h.Memory = append(h.CPU, v), append(h.Memory, math.Round(memory))
	}
	return h
}

// near returns the largest error of the values, and fails if a gap, a zero or the maximum differs.
func near(t *testing.T, want, got []float64, unit float64) (worst float64) {
	t.Helper()
	require.Len(t, got, len(want))
	highest, restored := math.Inf(-1), math.Inf(-1)
	for i := range want {
		require.Equal(t, math.IsNaN(want[i]), math.IsNaN(got[i]), "step %d", i)
		if math.IsNaN(want[i]) {
			continue
		}
		highest, restored = max(highest, want[i]), max(restored, got[i])
		if want[i] >= unit {
			worst = max(worst, math.Abs(got[i]/want[i]-1))
		} else {
			require.LessOrEqual(t, got[i], unit)
		}
	}
	return worst
}

func TestAWeekFits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		h := container(rng, 2016, 5*time.Minute)
		h.Start = max(0, rng.Float32()-0.5)
		packed := codec.PackCheckpoint(h, most)
		require.NotEmpty(t, packed)
		require.LessOrEqual(t, len(packed), most)
		got, err := codec.UnpackCheckpoint(packed)
		require.NoError(t, err)
		assert.Equal(t, h.First, got.First)
		assert.Equal(t, h.Step, got.Step)
		assert.Equal(t, 1, got.Stride)
		assert.LessOrEqual(t, got.Error, 0.08)
		assert.LessOrEqual(t, near(t, h.CPU, got.CPU, 1e-4), got.Error*1.0001)
		assert.LessOrEqual(t, near(t, h.Memory, got.Memory, 4096), got.Error*1.0001)
		assert.Empty(t, got.Peak)
		assert.Equal(t, h.Start, got.Start)
	}
}

// TestWhatIsRecommendedStays: a recommendation from an unpacked history has at most the error of its values, and the
// same confidence.
func TestWhatIsRecommendedStays(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		h := container(rng, 2016, 5*time.Minute)
		got, err := codec.UnpackCheckpoint(codec.PackCheckpoint(h, most))
		require.NoError(t, err)
		before, after := profileOf(h), profileOf(got)
		assert.Equal(t, before.First, after.First)
		assert.Equal(t, before.Last, after.Last)
		assert.Equal(t, before.Gaps, after.Gaps)
		for _, r := range recommender.Resources {
			assert.Equal(t, before.Of[r].Points, after.Of[r].Points)
			assert.InDelta(t, float64(before.Of[r].Peak), float64(after.Of[r].Peak), 0, "the true maximum")
			for _, q := range []float64{0.5, 0.9, 0.95, 0.99} {
				was := float64(before.Of[r].Overall.Quantile(q))
				assert.InDelta(t, was, float64(after.Of[r].Overall.Quantile(q)), was*got.Error*1.001+4096*float64(r))
				for hour := range before.Of[r].Hours {
					was := float64(before.Of[r].Hours[hour].Quantile(q))
					assert.InDelta(t, was, float64(after.Of[r].Hours[hour].Quantile(q)), was*got.Error*1.001+4096*float64(r))
				}
			}
		}
	}
}

func profileOf(h codec.Checkpoint) recommender.Profile {
	var steps []recommender.StepUsage
	for i := range h.CPU {
		steps = append(steps, recommender.StepUsage{
			At: usage.StepEnd(h.First+int64(i), h.Step), CPUCores: h.CPU[i], MemoryBytes: h.Memory[i], CPUPeak: math.NaN(), MemoryPeak: math.NaN(),
		})
	}
	return recommender.NewProfile(steps, h.Step)
}

// TestWhatDoesNotFitIsCoarser, and values are never lower than before, except for the error.
func TestWhatDoesNotFitIsCoarser(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, steps := range []int{2016, 8640, 43200} {
		h := container(rng, steps, time.Minute)
		h.Peak = append([]float64(nil), h.CPU...)
		packed := codec.PackCheckpoint(h, most)
		require.NotEmpty(t, packed, "%d steps", steps)
		got, err := codec.UnpackCheckpoint(packed)
		require.NoError(t, err)
		t.Logf("%d steps of three measures: %d bytes, ±%g %%, %d steps a value", steps, len(packed), got.Error*100, got.Stride)
		for i := range h.CPU {
			require.GreaterOrEqual(t, got.CPU[i], h.CPU[i]*(1-got.Error)-1e-4)
			require.GreaterOrEqual(t, got.Peak[i], h.Peak[i]*(1-got.Error)-1e-4)
			require.GreaterOrEqual(t, got.Memory[i], h.Memory[i]*(1-got.Error)-4096)
		}
	}
	assert.Nil(t, codec.PackCheckpoint(container(rng, 2016, time.Minute), 20), "too little room for anything")
}

func TestOddHistories(t *testing.T) {
	nan := math.NaN()
	for name, h := range map[string]codec.Checkpoint{
		"gaps at both ends and between": {CPU: []float64{nan, nan, 1, nan, 2, nan}, Memory: []float64{nan, nan, nan, 1e9, nan, nan}},
		"zeros":                         {CPU: []float64{0, 0, 0}, Memory: []float64{0, 0, 0}},
		"one value":                     {Memory: []float64{5e9}},
		"less than a unit":              {CPU: []float64{1e-5, 2e-5}},
		"huge":                          {CPU: []float64{1e9, 1e-3}, Memory: []float64{1e18, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			h.Step, h.First = time.Minute, -5
			got, err := codec.UnpackCheckpoint(codec.PackCheckpoint(h, most))
			require.NoError(t, err)
			skip := int(got.First - h.First)
			for _, of := range [][2][]float64{{h.CPU, got.CPU}, {h.Peak, got.Peak}, {h.Memory, got.Memory}} {
				if len(of[1]) > 0 {
					near(t, of[0][skip:skip+len(of[1])], of[1], 4096)
				}
			}
		})
	}
	assert.Nil(t, codec.PackCheckpoint(codec.Checkpoint{Step: time.Minute}, most))
	assert.Nil(t, codec.PackCheckpoint(codec.Checkpoint{Step: time.Minute, CPU: []float64{nan, nan}}, most))
}

func TestWhatIsBrokenIsRefused(t *testing.T) {
	packed := codec.PackCheckpoint(container(rand.New(rand.NewPCG(7, 8)), 500, 5*time.Minute), most)
	for i := range packed {
		_, err := codec.UnpackCheckpoint(packed[:i])
		require.Error(t, err, "%d bytes of it", i)
		hurt := bytes.Clone(packed)
		hurt[i] ^= 1 << (i % 8)
		_, err = codec.UnpackCheckpoint(hurt)
		require.Error(t, err, "byte %d is another", i)
	}
	packed[0] = 9
	_, err := codec.UnpackCheckpoint(packed)
	assert.ErrorContains(t, err, "unsupported version: 9, not 1")
}

// TestStoredCheckpointsStayReadable: these bytes are stored in clusters, in fine and coarse precision. Their unpacked
// values must never change.
func TestStoredCheckpointsStayReadable(t *testing.T) {
	for stored, want := range map[string]string{
		"0100e0a71292ccc5050708000000000000f83f080000000000000440080000000092fe9e417a261ec3c07881752a9b6887241303e315b687eca217e4d9183c94041901010000ffffd77e9fc7": "5813001 0.0025 1" +
			" [0.199920189 0.250294306 NaN 0 1.5 0.210157203 0.199920189]" +
			" [0.299589386 0.299589386 NaN 0 2.5 0.210157203 0.199920189]" +
			" [99946285.1 100949502 NaN 120229453 130000000 125129864 0]",
		"0106e0a71292ccc5050708000000000000f83f080000000000000440080000000092fe9e413ac5c868607a8e91d1c2b185898d8511100000ffff542f478d": "5813001 0.04 2" +
			" [0.255074979 0.255074979 0 0 1.5 1.5 0.201589461]" +
			" [0.298401648 0.298401648 0 0 2.5 2.4808559 0.201589461]" +
			" [101615858 101615858 118876181 118876181 130000000 128576477 0]",
	} {
		packed, err := hex.DecodeString(stored)
		require.NoError(t, err)
		got, err := codec.UnpackCheckpoint(packed)
		require.NoError(t, err)
		assert.Equal(t, 5*time.Minute, got.Step)
		assert.Equal(t, want, fmt.Sprintf("%d %g %d %.9g %.9g %.9g", got.First, got.Error, got.Stride, got.CPU, got.Peak, got.Memory))
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(codec.PackCheckpoint(container(rand.New(rand.NewPCG(1, 1)), 100, time.Minute), most), true)
	f.Add([]byte{1, 0, 1, 1, 1}, false)
	f.Fuzz(func(t *testing.T, packed []byte, sum bool) {
		if sum {
			packed = codec.Sum(packed)
		}
		h, err := codec.UnpackCheckpoint(packed)
		if err != nil {
			return
		}
		for _, values := range [][]float64{h.CPU, h.Peak, h.Memory} {
			for _, v := range values {
				require.True(t, math.IsNaN(v) || v >= 0 && !math.IsInf(v, 0), "%g", v)
			}
		}
		if again := codec.PackCheckpoint(h, 1<<20); again != nil {
			_, err := codec.UnpackCheckpoint(again)
			require.NoError(t, err)
		}
	})
}

func BenchmarkPack(b *testing.B) {
	h := container(rand.New(rand.NewPCG(1, 2)), 2016, 5*time.Minute)
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		size = len(codec.PackCheckpoint(h, most))
	}
	b.ReportMetric(float64(size), "bytes/container")
}

func BenchmarkUnpack(b *testing.B) {
	packed := codec.PackCheckpoint(container(rand.New(rand.NewPCG(1, 2)), 2016, 5*time.Minute), most)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := codec.UnpackCheckpoint(packed); err != nil {
			b.Fatal(err)
		}
	}
}

func ExamplePackCheckpoint() {
	h := codec.Checkpoint{Step: 5 * time.Minute, First: usage.StepOf(noon, 5*time.Minute), CPU: []float64{0.2, 0.25, math.NaN(), 0.2}}
	got, err := codec.UnpackCheckpoint(codec.PackCheckpoint(h, 2048))
	fmt.Printf("%.3f ±%g%% %v\n", got.CPU, got.Error*100, err)
	// Output: [0.200 0.250 NaN 0.200] ±0.25% <nil>
}
