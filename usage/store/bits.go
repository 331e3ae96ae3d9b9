package store

import (
	"encoding/binary"
	"math/bits"
)

// wordBits is how many bits are looked at or written at once, at most.
const wordBits = 48

// bitWriter appends bits, the lowest ones of a byte first.
type bitWriter struct {
	to    []byte
	held  uint64
	count uint
}

// put the lowest so many bits, at most wordBits.
func (w *bitWriter) put(value uint64, count uint) {
	w.held |= value << w.count
	for w.count += count; w.count >= 8; w.count -= 8 {
		w.to = append(w.to, byte(w.held))
		w.held >>= 8
	}
}

// rice: as many zeros as 2^k goes into the value, a one, and the rest in k bits.
func (w *bitWriter) rice(value uint32, k uint) {
	zeros := uint(value >> k)
	for ; zeros >= wordBits; zeros -= wordBits {
		w.put(0, wordBits)
	}
	w.put(0, zeros)
	w.put(1, 1)
	w.put(uint64(value)&(1<<k-1), k)
}

func (w *bitWriter) flush() []byte {
	if w.count > 0 {
		w.to = append(w.to, byte(w.held))
	}
	return w.to
}

// bitReader reads what a bitWriter wrote.
type bitReader struct {
	from []byte
	// at is the next bit that is not held.
	at   uint
	held uint64
	// count of the bits that are held.
	count uint
}

// fill holds wordBits at least: zeros behind the end.
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

func (r *bitReader) drop(count uint) {
	r.held >>= count & 63
	r.count -= count
}

// rice reads what bitWriter.rice wrote.
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
