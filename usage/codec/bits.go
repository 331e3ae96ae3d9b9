package codec

import (
	"encoding/binary"
	"math/bits"
)

// wordBits is the most bits that are read or written at once: a word of 64 that begins within a byte has 57.
const wordBits = 48

// bitWriter appends bits, the lowest ones of a byte first.
type bitWriter struct {
	to []byte
	// held are the count bits that fill no byte yet, fewer than 8 between two calls.
	held  uint64
	count uint
}

// put the lowest count bits of the value, at most wordBits. Those above must be 0.
func (w *bitWriter) put(value uint64, count uint) {
	w.held |= value << w.count
	for w.count += count; w.count >= 8; w.count -= 8 {
		w.to = append(w.to, byte(w.held))
		w.held >>= 8
	}
}

// rice writes the Rice code with the parameter k: the quotient by 2^k in unary, as zeros and a one, and the remainder in k
// bits.
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

// bitReader reads what a bitWriter wrote. Behind the end it reads zeros, so that a broken block cannot make it
// fail or read outside its slice.
type bitReader struct {
	from []byte
	// at is the position of the next bit that is not held.
	at uint
	// held are the next count bits.
	held  uint64
	count uint
}

// fill holds at least wordBits.
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

// drop as many of the bits that are held.
func (r *bitReader) drop(count uint) {
	r.held >>= count & 63
	r.count -= count
}

// rice reads what bitWriter.rice wrote. Where the code is cut off, the end counts as its one: it always returns.
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
