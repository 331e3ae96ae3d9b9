package store

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// MaxError is how far a kept value may be off what was measured, as a part of it. It does not hold for
// values under 0.01 millicores or 0.00001 bytes, which are told as nothing, nor is it needed for the newest
// hours, for steps between at most two amounts and for the highest value of each page: those are exact.
const MaxError = 0.025

// blockSteps is the number of steps that are packed together: two hours of 5-minute steps.
const blockSteps = 24

// Marks are places on a scale whose steps are a fixed ratio apart: a value is told as the middle of its
// mark. Two marks are no amounts.
const (
	markGap  = 0
	markZero = 1
	marks    = 1 << markBits
	markBits = 12
)

// leastValue is the middle of the first mark that is an amount.
const leastValue = 1e-5

// markRatio is the natural logarithm of the ratio of a mark to the one before.
var markRatio = 2 * math.Log1p(MaxError)

// middles of the marks.
var middles = func() (scale [marks]float64) {
	scale[markGap] = math.NaN()
	for mark := markZero + 1; mark < marks; mark++ {
		scale[mark] = leastValue * math.Exp(float64(mark-markZero-1)*markRatio)
	}
	return scale
}()

// markOf is a value's mark. What is more than the scale has is told as its end, 1e65 and more.
func markOf(value float64) uint16 {
	switch {
	case math.IsNaN(value):
		return markGap
	case value < leastValue:
		return markZero
	}
	return uint16(min(marks-1, markZero+1+math.Round(math.Log(value/leastValue)/markRatio)))
}

// Kinds of packed blocks. The first byte of one is its length, the second its kind, whether it has gaps, and
// what the kind needs.
const (
	// kindEmpty: nothing was measured.
	kindEmpty = iota
	// kindOne: all values are the one that follows; kindTwo: two values and a bit for each step.
	kindOne
	kindTwo
	// kindMarks: the first mark, then how far each further one is off what is expected, in the code of Golomb
	// and Rice. Expected is the mark before, or where isNoise what the marks before are around.
	kindMarks

	kindMask  = 3
	hasGaps   = 4
	isNoise   = 8
	riceShift = 4
)

// mostBlock is the most that a packed block takes in bytes: 15 bits for each value, and what is in front.
const mostBlock = 2 + 3 + blockSteps*15/8 + 1

// block is what a packed block says.
type block struct {
	marks [blockSteps]uint16
	// exact are values that are known exactly, by their marks; known is their number.
	exact  [2]float64
	exactM [2]uint16
	known  int
}

// value of a step.
func (b *block) value(i int) float64 { return b.valueOf(b.marks[i]) }

func (b *block) valueOf(mark uint16) float64 {
	for n := range b.known {
		if b.exactM[n] == mark {
			return b.exact[n]
		}
	}
	return middles[mark]
}

// packBlock appends blockSteps values; NaN is a gap.
func packBlock(to []byte, values []float64) []byte {
	at := len(to)
	to = append(to, 0, 0)
	var b block
	present := b.read(values)
	var kind byte
	if bits.OnesCount32(present) < blockSteps && present != 0 {
		kind = hasGaps
		to = append(to, byte(present), byte(present>>8), byte(present>>16))
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
		var how byte
		to, how = b.appendMarks(to)
		kind |= kindMarks | how
	}
	to[at], to[at+1] = byte(len(to)-at), kind
	return to
}

// read values: which steps have one, their marks, and whether they are all of at most two amounts.
func (b *block) read(values []float64) (present uint32) {
	few := true
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		present |= 1 << i
		if n := slices.Index(b.exact[:b.known], v); n >= 0 {
			b.marks[i] = b.exactM[n]
			continue
		}
		b.marks[i] = markOf(v)
		switch {
		case !few:
		case b.known == len(b.exact) || b.known == 1 && b.exactM[0] == b.marks[i]:
			few, b.known = false, 0
		default:
			b.exact[b.known], b.exactM[b.known] = v, b.marks[i]
			b.known++
		}
	}
	return present
}

func (b *block) appendTwo(to []byte) []byte {
	var second uint32
	for i, mark := range b.marks {
		if mark == b.exactM[1] {
			second |= 1 << i
		}
	}
	to = binary.LittleEndian.AppendUint64(to, math.Float64bits(b.exact[0]))
	to = binary.LittleEndian.AppendUint64(to, math.Float64bits(b.exact[1]))
	return append(to, byte(second), byte(second>>8), byte(second>>16))
}

// expected is the next mark, as far as the marks before tell.
type expected struct {
	noise bool
	// sum is four times what is expected.
	sum int32
}

func (e *expected) mark() int32 { return (e.sum + 2) >> 2 }

func (e *expected) learn(mark, instead int32) {
	if e.noise {
		e.sum += mark - instead
	} else {
		e.sum = mark << 2
	}
}

// appendMarks in the shorter of both ways, which it returns too.
func (b *block) appendMarks(to []byte) ([]byte, byte) {
	var walk, noise [blockSteps]uint32
	n, walkK, walkBits := b.surprises(&walk, false)
	_, noiseK, noiseBits := b.surprises(&noise, true)
	how, of, k := byte(walkK)<<riceShift, &walk, walkK
	if noiseBits < walkBits {
		how, of, k = byte(noiseK)<<riceShift|isNoise, &noise, noiseK
	}
	w := bitWriter{to: to}
	w.put(uint64(of[0]), markBits)
	for _, d := range of[1:n] {
		w.rice(d, k)
	}
	return w.flush(), how
}

// surprises are the first mark and how far the others are off what is expected; they take so many bits with
// the parameter.
func (b *block) surprises(to *[blockSteps]uint32, noise bool) (n int, k uint, size uint32) {
	e, sum := expected{noise: noise}, uint32(0)
	for _, mark := range b.marks {
		switch {
		case mark == markGap:
			continue
		case n == 0:
			to[0] = uint32(mark)
			e.sum = int32(mark) << 2
		default:
			expected := e.mark()
			d := int32(mark) - expected
			to[n] = uint32(d<<1 ^ d>>31)
			sum += to[n]
			e.learn(int32(mark), expected)
		}
		n++
	}
	k, size = riceOf(to[1:n], sum)
	return n, k, size
}

// riceOf is the parameter that takes the fewest bits, and how many: one near the logarithm of the mean.
func riceOf(differences []uint32, sum uint32) (best uint, least uint32) {
	near := uint(bits.Len32(sum / uint32(max(1, len(differences)))))
	least = math.MaxUint32
	for k := max(near, 1) - 1; k <= min(near+1, markBits); k++ {
		size := uint32(len(differences)) * uint32(k+1)
		for _, d := range differences {
			size += d >> k
		}
		if size < least {
			best, least = k, size
		}
	}
	return best, least
}

// unpack what packBlock made; more may follow.
func (b *block) unpack(packed []byte) {
	kind, rest := packed[1], packed[2:]
	present := uint32(1<<blockSteps - 1)
	if kind&hasGaps != 0 {
		present = uint24(rest)
		rest = rest[3:]
	}
	b.known = 0
	switch kind & kindMask {
	case kindEmpty:
		present = 0
	case kindOne:
		b.know(rest)
	case kindTwo:
		b.know(rest)
		b.know(rest[8:])
		second := uint24(rest[16:])
		for i := range b.marks {
			b.marks[i] = b.exactM[second>>i&1]
		}
	default:
		b.unpackMarks(rest, present, kind)
		return
	}
	for i := range b.marks {
		switch {
		case present>>i&1 == 0:
			b.marks[i] = markGap
		case b.known == 1:
			b.marks[i] = b.exactM[0]
		}
	}
}

func (b *block) know(from []byte) {
	v := math.Float64frombits(binary.LittleEndian.Uint64(from))
	b.exact[b.known], b.exactM[b.known] = v, markOf(v)
	b.known++
}

func (b *block) unpackMarks(from []byte, present uint32, kind byte) {
	r, k := bitReader{from: from}, uint(kind>>riceShift)&15
	mark := int32(r.take(markBits))
	e, begun := expected{noise: kind&isNoise != 0, sum: mark << 2}, false
	held, count := r.held, r.count // They are to stay in registers: this is most of what a profile costs.
	for i := range b.marks {
		if present>>i&1 == 0 {
			b.marks[i] = markGap
			continue
		}
		if begun {
			var d uint32
			zeros := uint(bits.TrailingZeros64(held))
			if size := zeros + 1 + k; size <= count {
				d = uint32(zeros<<k) | uint32(held>>((zeros+1)&63))&(1<<k-1)
				held >>= size & 63
				count -= size
			} else {
				r.count = count
				d = r.rice(k)
				held, count = r.held, r.count
			}
			expected := e.mark()
			mark = expected + (int32(d>>1) ^ -int32(d&1))
			e.learn(mark, expected)
		}
		begun = true
		b.marks[i] = uint16(mark)
	}
}

func uint24(from []byte) uint32 { return uint32(from[0]) | uint32(from[1])<<8 | uint32(from[2])<<16 }
