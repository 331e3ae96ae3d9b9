package codec

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// predictor guesses the next bucket from the previous ones. Packing and unpacking must make the same guesses, so it
// computes in integers, and its rules must never change.
type predictor struct {
	// mean: it predicts an exponentially weighted mean of weight 1/4, which suits noise. Otherwise it predicts the
	// previous bucket, which suits drift.
	mean bool
	// quarters is four times the prediction, so that the mean stays an integer.
	quarters int32
}

// next returns the predicted bucket.
func (p *predictor) next() int32 { return (p.quarters + 2) >> 2 }

// learn updates the prediction with the actual bucket.
func (p *predictor) learn(bucket, predicted int32) {
	if p.mean {
		p.quarters += bucket - predicted
	} else {
		p.quarters = bucket << 2
	}
}

// appendResiduals uses the predictor that takes fewer bits, and returns the flags with the predictor and the Rice
// parameter.
func (b *Block) appendResiduals(to []byte) ([]byte, byte) {
	var ofLast, ofMean [BlockSteps]uint32
	n, k, size := b.residuals(&ofLast, false)
	_, meanK, meanSize := b.residuals(&ofMean, true)
	flags, residuals := byte(k)<<riceShift, &ofLast
	if meanSize < size {
		flags, residuals, k = byte(meanK)<<riceShift|usesMean, &ofMean, meanK
	}
	w := bitWriter{to: to}
	w.put(uint64(residuals[0]), bucketBits)
	for _, residual := range residuals[1:n] {
		w.rice(residual, k)
	}
	return w.flush(), flags
}

// residuals of the buckets that are not gaps, in zigzag; the first of n is the bucket itself. The others take size bits
// with the best Rice parameter k.
func (b *Block) residuals(to *[BlockSteps]uint32, mean bool) (n int, k uint, size uint32) {
	p, sum := predictor{mean: mean}, uint32(0)
	for _, bucket := range b.Buckets {
		switch {
		case bucket == BucketGap:
			continue
		case n == 0:
			to[0] = uint32(bucket)
			p.quarters = int32(bucket) << 2
		default:
			predicted := p.next()
			to[n] = uint32(zigzag(int64(int32(bucket) - predicted)))
			sum += to[n]
			p.learn(int32(bucket), predicted)
		}
		n++
	}
	k, size = bestRice(to[1:n], sum)
	return n, k, size
}

// bestRice returns the Rice parameter that takes the fewest bits, and their number. It is near the logarithm of the
// mean. See A. Kiely, "Selecting the Golomb parameter in Rice coding", IPN Progress Report 42-159 (2004).
func bestRice(residuals []uint32, sum uint32) (best uint, least uint32) {
	near := uint(bits.Len32(sum / uint32(max(1, len(residuals)))))
	least = math.MaxUint32
	for k := max(near, 1) - 1; k <= min(near+1, bucketBits); k++ {
		size := uint32(len(residuals)) * uint32(k+1)
		for _, residual := range residuals {
			size += residual >> k
		}
		if size < least {
			best, least = k, size
		}
	}
	return best, least
}

// readResiduals reads what appendResiduals wrote, for the steps that are present.
func (b *Block) readResiduals(from []byte, present uint32, kind byte) {
	r, k := bitReader{from: from}, uint(kind>>riceShift)&15
	bucket := int32(r.take(bucketBits))
	p, begun := predictor{mean: kind&usesMean != 0, quarters: bucket << 2}, false
	held, count := r.held, r.count // Local copies stay in registers: this loop is most of the cost of a profile.
	for i := range b.Buckets {
		if present>>i&1 == 0 {
			b.Buckets[i] = BucketGap
			continue
		}
		if begun {
			var residual uint32
			zeros := uint(bits.TrailingZeros64(held))
			if size := zeros + 1 + k; size <= count {
				residual = uint32(zeros<<k) | uint32(held>>((zeros+1)&63))&(1<<k-1)
				held >>= size & 63
				count -= size
			} else {
				r.count = count
				residual = r.rice(k)
				held, count = r.held, r.count
			}
			predicted := p.next()
			bucket = predicted + int32(unzigzag(uint64(residual)))
			p.learn(bucket, predicted)
		}
		begun = true
		b.Buckets[i] = uint16(bucket)
	}
}

// wordBits is the most bits that are read or written at once: a word of 64 that begins within a byte has 57.
const wordBits = 48

// bitWriter appends bits, the lowest ones of a byte first.
type bitWriter struct {
	to []byte
	// held are the count bits that do not fill a byte yet, fewer than 8 between two calls.
	held  uint64
	count uint
}

// put writes the lowest count bits of the value, at most wordBits. The higher bits must be 0.
func (w *bitWriter) put(value uint64, count uint) {
	w.held |= value << w.count
	for w.count += count; w.count >= 8; w.count -= 8 {
		w.to = append(w.to, byte(w.held))
		w.held >>= 8
	}
}

// rice writes the Rice code with the parameter k: the quotient by 2^k in unary, as zeros and a one, and the remainder
// in k bits.
func (w *bitWriter) rice(value uint32, k uint) {
	zeros := uint(value >> k)
	for ; zeros >= wordBits; zeros -= wordBits {
		w.put(0, wordBits)
	}
	w.put(0, zeros)
	w.put(1, 1)
	w.put(uint64(value)&(1<<k-1), k)
}

// flush returns all bytes, the last one filled with zeros.
func (w *bitWriter) flush() []byte {
	if w.count > 0 {
		w.to = append(w.to, byte(w.held))
	}
	return w.to
}

// bitReader reads the output of a bitWriter. After the end it reads zeros, so that a broken block cannot make it fail
// or read outside its slice.
type bitReader struct {
	from []byte
	// at is the position of the next bit that is not held.
	at uint
	// held are the next count bits.
	held  uint64
	count uint
}

// fill reads ahead until at least wordBits are held.
func (r *bitReader) fill() {
	at := r.at - r.count
	i := at >> 3
	if i+8 <= uint(len(r.from)) {
		r.held = binary.LittleEndian.Uint64(r.from[i:])
	} else {
		var word [8]byte
		if i < uint(len(r.from)) {
			copy(word[:], r.from[i:])
		}
		r.held = binary.LittleEndian.Uint64(word[:])
	}
	r.held >>= at & 7
	r.count = 64 - at&7
	r.at = at + r.count
}

// take the next bits, at most wordBits.
func (r *bitReader) take(count uint) uint64 {
	if r.count < count {
		r.fill()
	}
	value := r.held & (1<<count - 1)
	r.drop(count)
	return value
}

// drop removes bits that are held.
func (r *bitReader) drop(count uint) {
	r.held >>= count & 63
	r.count -= count
}

// rice reads the output of bitWriter.rice. If the code is cut off, the end counts as its one: it always returns.
func (r *bitReader) rice(k uint) uint32 {
	quotient := uint(0)
	for r.fill(); r.at-r.count < 8*uint(len(r.from)); r.fill() {
		zeros := uint(bits.TrailingZeros64(r.held))
		if zeros < wordBits {
			r.drop(zeros + 1)
			quotient += zeros
			break
		}
		r.drop(wordBits)
		quotient += wordBits
	}
	return uint32(quotient<<k | uint(r.take(k)))
}
