// Package codec packs usage over time. It is pure: no clock, no lock, no input or output. It has two formats:
//
//   - A block holds a few steps of one measure and is unpacked in nanoseconds: histories are kept in memory as
//     blocks.
//   - A checkpoint holds the whole history of one container in about 2 KiB, as fine as fits: it is stored in the
//     API server.
//
// The way of a value into a block: BucketOf quantises it on a logarithmic scale, a predictor guesses the bucket
// from the buckets before, and the difference to the guess (the residual) is written in Rice code. A checkpoint
// does the same with simpler means: the residual is the difference to the bucket before, and DEFLATE compresses
// all of them. Start reading at block.go, then residuals.go and checkpoint.go.
//
// The methods, and where they come from:
//
//   - Buckets of a fixed ratio, so that the relative error is bounded: C. Masson, J. E. Rim, H. K. Lee, "DDSketch:
//     a fast and fully-mergeable quantile sketch with relative-error guarantees", PVLDB 12 (2019).
//   - Blocks of two hours, each unpacked by itself: T. Pelkonen et al., "Gorilla: a fast, scalable, in-memory time
//     series database", PVLDB 8 (2015). Gorilla keeps floats exactly, by XOR; here they are quantised.
//   - The better of two predictors, its residuals in Rice code with the best parameter of the block: T. Robinson,
//     "SHORTEN: simple lossless and near-lossless waveform compression", Cambridge CUED/F-INFENG/TR.156 (1994).
//   - Rice code: R. F. Rice, J. R. Plaunt, "Adaptive variable-length coding for efficient compression of
//     spacecraft television data", IEEE Trans. Communication Technology 19 (1971), a case of S. W. Golomb,
//     "Run-length encodings", IEEE Trans. Information Theory 12 (1966).
//   - The mean predictor, an exponentially weighted mean in integers: V. Jacobson, "Congestion avoidance and
//     control", SIGCOMM 1988, appendix A.
//   - Zigzag and varints: the encoding of Protocol Buffers. Checkpoints are compressed by DEFLATE (RFC 1951).
package codec

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// MaxError is the largest relative error of an unpacked value. It does not hold for values below MinValue, which become
// 0. A block of at most two different values is exact.
const MaxError = 0.025

// MinValue is the smallest value that is kept, as the middle of its bucket: 0.01 millicores or 0.00001 bytes.
const MinValue = 1e-5

// BlockSteps is the number of steps that are packed together: two hours of 5-minute steps.
const BlockSteps = 24

// Buckets are numbered so that a greater value never has a lower number. The first two are reserved.
const (
	BucketGap  = 0
	BucketZero = 1
	// Buckets is their number. The last one has the middle 1e82, and contains all greater values.
	Buckets    = 1 << bucketBits
	bucketBits = 12
	firstValue = BucketZero + 1
)

// MaxBlock is the maximum size of a packed block in bytes: 15 bits for each value, and its head.
const MaxBlock = 2 + 3 + BlockSteps*15/8 + 1

var blockScale = newQuantiser(MinValue, MaxError)

// middles of the buckets; of BucketGap NaN.
var middles = func() (middles [Buckets]float64) {
	middles[BucketGap] = math.NaN()
	for bucket := firstValue; bucket < Buckets; bucket++ {
		middles[bucket] = blockScale.middle(float64(bucket - firstValue))
	}
	return middles
}()

// BucketOf a value; NaN is a gap.
func BucketOf(value float64) uint16 {
	switch {
	case math.IsNaN(value):
		return BucketGap
	case value < MinValue:
		return BucketZero
	}
	return uint16(min(Buckets-1, firstValue+blockScale.bucket(value)))
}

// Middle is the value that a bucket represents; NaN for a gap.
func Middle(bucket uint16) float64 { return middles[bucket] }

// A packed block begins with a byte for its length and one for its kind, with flags and the Rice parameter. If there
// are gaps, one bit per step says whether it has a value. Then the data of the kind follows.
const (
	// kindEmpty has only gaps, and no data.
	kindEmpty = iota
	// kindOne has one value for all steps, as a float.
	kindOne
	// kindTwo has two values as floats, and one bit per step that is set for the second value.
	kindTwo
	// kindResiduals has the first bucket in bucketBits, and the residuals of the others in Rice code.
	kindResiduals

	kindMask  = 3
	hasGaps   = 1 << 2
	usesMean  = 1 << 3 // the predictor uses a mean
	riceShift = 4
)

// Block is an unpacked block of BlockSteps steps. Its zero value has only gaps. Unpack overwrites all of it, so it can
// be reused. It is not safe for concurrent use.
type Block struct {
	// Buckets has the bucket of each step, as returned by BucketOf; BucketGap if the step has no value.
	Buckets [BlockSteps]uint16
	// exact values, which replace the middles of their buckets; known is their number.
	exact       [2]float64
	exactBucket [2]uint16
	known       int
}

// Exact reports whether all values of the block are known exactly, because there are at most two different ones. It is
// false for a block with only gaps.
func (b *Block) Exact() bool { return b.known > 0 }

// Value returns the value of the step with this index, 0 to BlockSteps-1; NaN is a gap. It panics for other
// indexes.
func (b *Block) Value(step int) float64 { return b.ValueOf(b.Buckets[step]) }

// ValueOf returns the block's exact value for a bucket, or the bucket's middle.
func (b *Block) ValueOf(bucket uint16) float64 {
	for n := range b.known {
		if b.exactBucket[n] == bucket {
			return b.exact[n]
		}
	}
	return middles[bucket]
}

// Max returns the highest value of the steps from the index from up to but not including to; negative without a value.
// ofSpan is the exact highest value of a longer span that contains the block. If the block's highest value may be equal
// to it, because both are in the same bucket, Max returns ofSpan. So peaks stay exact after packing.
func (b *Block) Max(from, to int, ofSpan float64) float64 {
	if from >= to {
		return -1
	}
	bucket := slices.Max(b.Buckets[from:to])
	switch value := b.ValueOf(bucket); {
	case math.IsNaN(value):
		return -1
	case b.Exact():
		return value
	case value*(1+MaxError)*(1+MaxError) > ofSpan && bucket == BucketOf(ofSpan):
		return ofSpan
	default:
		return value
	}
}

// AppendBlock packs values, which must be BlockSteps many, and appends the block to a slice. NaN is a gap. It allocates
// only if the slice has no room; MaxBlock bytes are enough.
func AppendBlock(to []byte, values []float64) []byte {
	at := len(to)
	to = append(to, 0, 0)
	var b Block
	present := b.quantise(values)
	var kind byte
	if bits.OnesCount32(present) < BlockSteps && present != 0 {
		kind = hasGaps
		to = appendUint24(to, present)
	}
	switch {
	case present == 0:
		kind |= kindEmpty
	case b.known == 1:
		kind |= kindOne
		to = binary.LittleEndian.AppendUint64(to, math.Float64bits(b.exact[0]))
	case b.known == 2:
		kind |= kindTwo
		to = b.appendTwo(to)
	default:
		var flags byte
		to, flags = b.appendResiduals(to)
		kind |= kindResiduals | flags
	}
	to[at], to[at+1] = byte(len(to)-at), kind
	return to
}

// BlockLen returns the size of the first packed block in bytes. The caller uses it to find the next block.
func BlockLen(packed []byte) int { return int(packed[0]) }

// quantise sets the buckets of the values and returns one bit for each value that is not a gap. At most two different
// values, in different buckets, stay exact. Two values in one bucket could not be distinguished when the block is
// unpacked.
func (b *Block) quantise(values []float64) (present uint32) {
	few := true
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		present |= 1 << i
		if n := slices.Index(b.exact[:b.known], v); n >= 0 {
			b.Buckets[i] = b.exactBucket[n]
			continue
		}
		b.Buckets[i] = BucketOf(v)
		switch {
		case !few:
		case b.known == len(b.exact) || b.known == 1 && b.exactBucket[0] == b.Buckets[i]:
			few, b.known = false, 0
		default:
			b.addExact(v, b.Buckets[i])
		}
	}
	return present
}

// appendTwo appends both exact values, and the steps with the second one.
func (b *Block) appendTwo(to []byte) []byte {
	var second uint32
	for i, bucket := range b.Buckets {
		if bucket == b.exactBucket[1] {
			second |= 1 << i
		}
	}
	to = binary.LittleEndian.AppendUint64(to, math.Float64bits(b.exact[0]))
	to = binary.LittleEndian.AppendUint64(to, math.Float64bits(b.exact[1]))
	return appendUint24(to, second)
}

// Unpack reads the first block made by AppendBlock; more blocks may follow. It trusts its input: other bytes may make
// it panic. Only checkpoints come from outside, and they have a format of their own.
func (b *Block) Unpack(packed []byte) {
	kind, rest := packed[1], packed[2:]
	present := uint32(1<<BlockSteps - 1)
	if kind&hasGaps != 0 {
		present = uint24(rest)
		rest = rest[3:]
	}
	b.known = 0
	switch kind & kindMask {
	case kindEmpty:
		present = 0
	case kindOne:
		b.readExact(rest)
	case kindTwo:
		b.readExact(rest)
		b.readExact(rest[8:])
		second := uint24(rest[16:])
		for i := range b.Buckets {
			b.Buckets[i] = b.exactBucket[second>>i&1]
		}
	default:
		b.readResiduals(rest, present, kind)
		return
	}
	for i := range b.Buckets {
		switch {
		case present>>i&1 == 0:
			b.Buckets[i] = BucketGap
		case b.known == 1:
			b.Buckets[i] = b.exactBucket[0]
		}
	}
}

// readExact reads a value of 8 bytes.
func (b *Block) readExact(from []byte) {
	v := math.Float64frombits(binary.LittleEndian.Uint64(from))
	b.addExact(v, BucketOf(v))
}

func (b *Block) addExact(value float64, bucket uint16) {
	b.exact[b.known], b.exactBucket[b.known] = value, bucket
	b.known++
}

func appendUint24(to []byte, n uint32) []byte { return append(to, byte(n), byte(n>>8), byte(n>>16)) }

func uint24(from []byte) uint32 { return uint32(from[0]) | uint32(from[1])<<8 | uint32(from[2])<<16 }

// quantiser maps positive values to buckets whose middles are a fixed ratio apart: bucket n has the middle
// unit·e^(n·width). It computes in floats, because a bucket may be infinite. Both formats store its results, so its
// rounding must never change.
type quantiser struct {
	unit float64
	// width is the natural logarithm of the ratio of a middle to the one before.
	width float64
}

// newQuantiser returns a quantiser with a relative error of at most maxError: a bucket reaches that far to both sides
// of its middle.
func newQuantiser(unit, maxError float64) quantiser {
	return quantiser{unit: unit, width: 2 * math.Log1p(maxError)}
}

// bucket of a value; negative if the value is less than unit.
func (q quantiser) bucket(value float64) float64 { return math.Round(math.Log(value/q.unit) / q.width) }

// middle of a bucket.
func (q quantiser) middle(bucket float64) float64 { return q.unit * math.Exp(bucket*q.width) }

// zigzag maps small numbers of both signs to small numbers: 0, -1, 1, -2 become 0, 1, 2, 3.
func zigzag(n int64) uint64 { return uint64(n<<1 ^ n>>63) }

// unzigzag undoes zigzag.
func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }
