package codec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// blockNear reports whether an unpacked value is close enough to the packed one.
func blockNear(want, got float64) bool {
	switch {
	case math.IsNaN(want):
		return math.IsNaN(got)
	case want < MinValue:
		return got == 0 || got == want
	}
	return math.Abs(got/want-1) <= MaxError*(1+1e-9)
}

func TestBuckets(t *testing.T) {
	assert.Equal(t, uint16(BucketGap), BucketOf(math.NaN()))
	assert.Equal(t, uint16(BucketZero), BucketOf(0))
	assert.Equal(t, uint16(Buckets-1), BucketOf(math.MaxFloat64))
	random := rand.New(rand.NewPCG(7, 8))
	for range 100_000 {
		v := math.Exp(130*random.Float64() - 11)
		require.True(t, blockNear(v, Middle(BucketOf(v))), "%v", v)
	}
}

func FuzzBlock(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint32(0))
	f.Add(uint64(3), uint64(4), uint32(0xff00ff))
	f.Fuzz(func(t *testing.T, a, b uint64, gaps uint32) {
		random := rand.New(rand.NewPCG(a, b))
		values := make([]float64, BlockSteps)
		spread := 40 * random.Float64() * random.Float64()
		for i := range values {
			values[i] = math.NaN()
			if gaps>>i&1 == 0 {
				values[i] = math.Exp(spread*random.NormFloat64()) * float64(random.IntN(4))
			}
		}
		packed := AppendBlock([]byte{9}, values)[1:]
		require.Len(t, packed, BlockLen(packed))
		require.LessOrEqual(t, len(packed), MaxBlock)
		var got Block
		got.Unpack(append(packed, 0xff, 0xff))
		for i := range values {
			require.True(t, blockNear(values[i], got.Value(i)) || values[i] > 1e60, "%v, not %v", got.Value(i), values[i])
		}
	})
}
