package history

import (
	"math"

	"attune.io/attune/recommender"
	"attune.io/attune/usage/codec"
)

const (
	// pageSteps is the number of steps whose highest value is kept exactly: a day of 5-minute steps.
	pageSteps = 12 * codec.BlockSteps
	// openSteps are never packed: the newest steps are read again and may change.
	openSteps = overlap + 1
	// tailSteps is the length that tail reaches before a block is packed.
	tailSteps = codec.BlockSteps + openSteps
)

// series has the values of one measure in the steps of a window. The newest values are kept as measured, in tail. Older
// ones are packed in blocks: each value has an error of at most codec.MaxError, and the highest value of each page is
// exact.
//
// Invariants: packed covers the steps from start to next-1 without a hole, tail begins with next, and there is no value
// after the tail. Steps are numbered from 1970 (usage.StepOf), and start and next are multiples of codec.BlockSteps.
type series struct {
	// first and last are the steps of the window: 0 and -1 before the first slide.
	first, last int64
	// start is the first step of packed, next the first step of tail. Both are the first step of a block.
	start, next int64
	// packed has consecutive blocks.
	packed []byte
	// pageMax has the highest packed value of each page, beginning with the page of start; NaN for a page with only
	// gaps.
	pageMax []float64
	// tail has the values from next on, NaN for a gap. To write, call open, put and close. Between open and close, tail
	// may be longer than tailSteps, and its bytes are not charged yet.
	tail []float64

	// share is charged for the bytes; taken is the charged amount.
	share *share
	taken int64
}

func newSeries(share *share) series { return series{last: -1, share: share} }

func (s *series) empty() bool { return len(s.packed)+len(s.tail) == 0 }

// slide moves the window and drops blocks that left it. It reports whether values may have left the window, or whether
// values read under a clock that was ahead entered it.
func (s *series) slide(first, last int64) bool {
	appeared := s.appears(last)
	s.last = max(s.last, last)
	if first <= s.first {
		return appeared
	}
	s.first = first
	if s.empty() || s.start >= first {
		return appeared
	}
	s.forget()
	return true
}

// appears reports whether there is a value of a step after the window and not after last (see setBack).
func (s *series) appears(last int64) bool {
	kept := s.next + int64(len(s.tail)) - 1
	return !s.empty() && kept > s.last && last > s.last && s.highest(s.last+1, last) >= 0
}

// setBack moves the window back. Values of steps after it stay, but are invisible until the window reaches them.
func (s *series) setBack(first, last int64) { s.first, s.last = first, last }

// forget drops the blocks that have left the window.
func (s *series) forget() {
	size, before := 0, pageOf(s.start)
	for size < len(s.packed) && s.start+codec.BlockSteps <= s.first {
		size += codec.BlockLen(s.packed[size:])
		s.start += codec.BlockSteps
	}
	if size > 0 {
		s.packed = s.packed[:copy(s.packed, s.packed[size:])]
		gone := min(int(pageOf(s.start)-before), len(s.pageMax))
		s.pageMax = s.pageMax[:copy(s.pageMax, s.pageMax[gone:])]
	}
	if len(s.packed) > 0 {
		return
	}
	s.pageMax = s.pageMax[:0]
	if left := blockStart(s.first) - s.next; left >= int64(len(s.tail)) {
		s.release()
	} else if left > 0 {
		s.tail = s.tail[:copy(s.tail, s.tail[left:])]
		s.next += left
	}
	s.start = s.next
}

// room reports whether the share can hold the values of so many steps from first on, in the worst case of packing. For
// steps after the packed ones the answer is always true: close checks them block by block.
func (s *series) room(first, steps int64) bool {
	if first >= s.next && !s.empty() {
		return true // close checks
	}
	blocks := steps/codec.BlockSteps + 2
	return s.share.left() >= blocks*codec.MaxBlock+8*(tailSteps+s.pages())
}

// pages is the largest number of pages that the window can overlap.
func (s *series) pages() int64 { return (s.last-s.first)/pageSteps + 2 }

// open makes every step from the given one on writable: it unpacks whole pages into tail. Values keep their accuracy
// when they are packed again, because a bucket's middle is in the same bucket, and the exact highest value of the page
// is restored first. close must follow.
func (s *series) open(step int64) {
	switch {
	case s.empty():
		s.start, s.next = blockStart(step), blockStart(step)
		return
	case step >= s.next:
		return
	}
	from := max(s.start, step/pageSteps*pageSteps)
	values := s.values(from, s.next-1)
	size, at := 0, s.start
	for ; at < from; at += codec.BlockSteps {
		size += codec.BlockLen(s.packed[size:])
	}
	s.restorePageMax(values, from)
	s.packed, s.pageMax = s.packed[:size], s.pageMax[:pageOf(from)-pageOf(s.start)]
	s.tail, s.next = append(values, s.tail...), from
	if step < s.start {
		earlier := gaps(s.start - blockStart(step))
		s.tail = append(earlier, s.tail...)
		s.start, s.next = blockStart(step), blockStart(step)
	}
}

// restorePageMax restores the exact highest value of each page, at its step or at another step of the same bucket.
func (s *series) restorePageMax(values []float64, from int64) {
	for i := 0; i < len(values); {
		end := min(len(values), i+int(pageSteps-(from+int64(i))%pageSteps))
		pageMax := s.pageMaxOf(from + int64(i))
		bucket := codec.BucketOf(pageMax)
		for ; i < end; i++ {
			if bucket != codec.BucketGap && codec.BucketOf(values[i]) == bucket {
				values[i], bucket = pageMax, codec.BucketGap
			}
		}
	}
}

// put sets the value of an open step. It returns false if the step is outside the window or not open.
func (s *series) put(step int64, value float64) bool {
	if step < s.first || step > s.last || step < s.next {
		return false
	}
	for int64(len(s.tail)) <= step-s.next {
		if s.tail == nil {
			s.tail = make([]float64, 0, tailSteps)
		}
		s.tail = append(s.tail, math.NaN())
	}
	s.tail[step-s.next] = value
	return true
}

// opened returns the value of an open step, NaN without a value.
func (s *series) opened(step int64) float64 {
	if i := step - s.next; i >= 0 && i < int64(len(s.tail)) && step >= s.first {
		return s.tail[i]
	}
	return math.NaN()
}

// close packs old steps and charges the share. It returns how many values found no room and are lost; their steps
// become gaps. The newest openSteps are never packed, because the next answer reads them again.
func (s *series) close() (lost int) {
	done := 0
	for len(s.tail)-done >= tailSteps {
		lost += s.pack(s.tail[done : done+codec.BlockSteps])
		done += codec.BlockSteps
	}
	if done > 0 {
		s.tail = s.tail[:copy(s.tail, s.tail[done:])]
	}
	if cap(s.tail) > tailSteps {
		s.tail = append(make([]float64, 0, tailSteps), s.tail...)
	}
	s.charge()
	return lost
}

// pack a block, or a block of gaps if there is no room for the values.
func (s *series) pack(values []float64) (lost int) {
	var room [2 * codec.MaxBlock]byte
	block := codec.AppendBlock(room[:0], values)
	if grown := len(s.packed) + len(block); grown > cap(s.packed) {
		// The bytes of the tail above its usual size are returned at once.
		if s.share.left()+s.taken < int64(roundUp(grown))+8*(tailSteps+s.pages()) {
			lost = measured(values)
			block = codec.AppendBlock(block[:0], gaps(codec.BlockSteps))
		}
		s.packed = append(make([]byte, 0, roundUp(len(s.packed)+len(block))), s.packed...)
	}
	s.packed = append(s.packed, block...)
	if s.pageMax == nil {
		s.pageMax = make([]float64, 0, s.pages())
	}
	for len(s.pageMax) <= int(pageOf(s.next)-pageOf(s.start)) {
		s.pageMax = append(s.pageMax, math.NaN())
	}
	if lost == 0 {
		of := &s.pageMax[pageOf(s.next)-pageOf(s.start)]
		for _, value := range values {
			*of = recommender.Highest(*of, value)
		}
	}
	s.next += codec.BlockSteps
	return lost
}

// eachBlock visits, in order, the packed blocks that overlap the steps from first to last. The block is only valid
// during the call.
func (s *series) eachBlock(first, last int64, visit func(at int64, b *codec.Block, pageMax float64)) {
	var b codec.Block
	at := s.start
	for rest := s.packed; len(rest) > 0 && at <= last; rest = rest[codec.BlockLen(rest):] {
		if at+codec.BlockSteps > first {
			b.Unpack(rest)
			visit(at, &b, s.pageMaxOf(at))
		}
		at += codec.BlockSteps
	}
}

// pageMaxOf a packed step's page.
func (s *series) pageMaxOf(step int64) float64 { return s.pageMax[pageOf(step)-pageOf(s.start)] }

// values of the steps from first to last, both included; NaN if not measured.
func (s *series) values(first, last int64) []float64 {
	values := gaps(max(0, last-first+1))
	from, to := max(first, s.first), min(last, s.last)
	s.eachBlock(from, to, func(at int64, b *codec.Block, pageMax float64) {
		for i := max(0, from-at); i < min(codec.BlockSteps, to-at+1); i++ {
			if v := b.Value(int(i)); !math.IsNaN(v) {
				values[at+i-first] = min(v, pageMax)
			}
		}
	})
	for step := max(from, s.next); step <= min(to, s.next+int64(len(s.tail))-1); step++ {
		values[step-first] = s.opened(step)
	}
	return values
}

// max is the highest value of the steps from first to last, both included; negative without a value. Packed values in
// the bucket of their page's highest value are returned as that value.
func (s *series) max(first, last int64) float64 {
	return s.highest(max(first, s.first), min(last, s.last))
}

// highest is like max, but includes steps outside the window.
func (s *series) highest(from, to int64) float64 {
	highest := -1.0
	s.eachBlock(from, to, func(at int64, b *codec.Block, pageMax float64) {
		highest = max(highest, b.Max(int(max(0, from-at)), int(min(codec.BlockSteps, to-at+1)), pageMax))
	})
	for step := max(from, s.next); step <= min(to, s.next+int64(len(s.tail))-1); step++ {
		if v := s.opened(step); v > highest {
			highest = v
		}
	}
	return highest
}

// roundUp rounds a size up to about the size that the memory allocator returns anyway.
func roundUp(size int) int { return (size + 63) &^ 63 }

// charge the share for the bytes in use.
func (s *series) charge() {
	taken := int64(cap(s.packed)) + 8*int64(cap(s.tail)+cap(s.pageMax))
	s.share.take(taken - s.taken)
	s.taken = taken
}

// release returns all bytes to the share.
func (s *series) release() {
	s.packed, s.pageMax, s.tail = nil, nil, nil
	s.charge()
}

// blockStart is the first step of the block that contains the step.
func blockStart(step int64) int64 { return step / codec.BlockSteps * codec.BlockSteps }

// pageOf a step is the number of its page.
func pageOf(step int64) int64 { return step / pageSteps }
