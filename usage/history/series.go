package history

import (
	"math"

	"attune.io/attune/recommender"
	"attune.io/attune/usage/codec"
)

const (
	// pageSteps is the number of steps whose highest value is kept exactly: a day of 5-minute steps.
	pageSteps = 12 * codec.BlockSteps
	// openSteps are never packed: the newest ones are read again, and may be others then.
	openSteps = overlap + 1
	// tailSteps is the most that are not packed for long.
	tailSteps = codec.BlockSteps + openSteps
)

// series holds the values of one measure in the steps of a window. The newest values are kept as they were
// measured, in tail. Older ones are packed in blocks, where each value is off by codec.MaxError at most and the
// highest value of each page is exact.
//
// Invariants: packed covers the steps from start to next-1 without a hole, tail begins with next, and there is no
// value after the tail. Steps are numbered from 1970 (usage.StepOf), and start and next are multiples of
// codec.BlockSteps.
type series struct {
	// first and last steps of the window: 0 and -1 when nothing was ever in it.
	first, last int64
	// start is the first step of packed, next that of tail. Both are the first of a block.
	start, next int64
	// packed blocks, one after the other.
	packed []byte
	// pageMax are the highest values of the packed steps of each page, from start's on; NaN for one with gaps alone.
	pageMax []float64
	// tail are the values from next on, NaN for a gap. To write, open a step, put values and close: between open and close it
	// may be longer than tailSteps, and what it takes is not charged yet.
	tail []float64

	// share is what the bytes are taken from, and taken how many are.
	share *share
	taken int64
}

func newSeries(share *share) series { return series{last: -1, share: share} }

func (s *series) empty() bool { return len(s.packed)+len(s.tail) == 0 }

// slide moves the window and forgets what fell out of it; it says whether that may have been anything, or whether values
// that a clock ahead had read came into it.
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

// appears reports whether a value is kept of a step that is after the window, and not after last (setBack).
func (s *series) appears(last int64) bool {
	kept := s.next + int64(len(s.tail)) - 1
	return !s.empty() && kept > s.last && last > s.last && s.highest(s.last+1, last) >= 0
}

// setBack moves the window back. What is kept of steps after it is not seen before their time has come.
func (s *series) setBack(first, last int64) { s.first, s.last = first, last }

// forget the blocks that the window has left.
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

// room returns whether the share has enough for the values of so many steps from first on, in the worst case of
// packing. For steps behind the packed ones the answer is always true: close decides about them block by block.
func (s *series) room(first, steps int64) bool {
	if first >= s.next && !s.empty() {
		return true // close looks.
	}
	blocks := steps/codec.BlockSteps + 2
	return s.share.left() >= blocks*codec.MaxBlock+8*(tailSteps+s.pages())
}

// pages that the window's steps may be in.
func (s *series) pages() int64 { return (s.last-s.first)/pageSteps + 2 }

// open makes every step from the given one on writable: it unpacks whole pages into tail. Values keep their
// accuracy when they are packed again, since a bucket's middle is in the same bucket, and the exact highest value
// of the page is put back first. close must follow.
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

// restorePageMax puts the exact highest value of each page where it was, or at another step of the same bucket.
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

// put a value of a step that is open; false: it is outside the window.
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

// open steps' value, NaN without one.
func (s *series) opened(step int64) float64 {
	if i := step - s.next; i >= 0 && i < int64(len(s.tail)) && step >= s.first {
		return s.tail[i]
	}
	return math.NaN()
}

// close packs the steps that have become old and charges the share. It returns how many values found no room and
// are lost; their steps are gaps then. The newest openSteps are never packed, because the next answer reads them
// again.
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

// pack a block, or a gap where there is no room for it.
func (s *series) pack(values []float64) (lost int) {
	var room [2 * codec.MaxBlock]byte
	block := codec.AppendBlock(room[:0], values)
	if grown := len(s.packed) + len(block); grown > cap(s.packed) {
		// What the tail takes beyond its usual size is given back at once.
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

// eachBlock visits the packed blocks that steps from first to last are in, in their order. The block is only valid during
// the call.
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

// values of the steps from first to last, both included, NaN where nothing was measured.
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

// max is the highest value of the steps from first to last, both included; below zero where there is none. Packed values in
// the bucket of their page's highest are told as that one.
func (s *series) max(first, last int64) float64 {
	return s.highest(max(first, s.first), min(last, s.last))
}

// highest is max, of steps outside the window, too.
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

// roundUp to what the memory allocator hands out anyway, or near it.
func roundUp(size int) int { return (size + 63) &^ 63 }

// charge the share for what is taken now.
func (s *series) charge() {
	taken := int64(cap(s.packed)) + 8*int64(cap(s.tail)+cap(s.pageMax))
	s.share.take(taken - s.taken)
	s.taken = taken
}

// release gives the room back.
func (s *series) release() {
	s.packed, s.pageMax, s.tail = nil, nil, nil
	s.charge()
}

// blockStart is the first step of the block that a step is in.
func blockStart(step int64) int64 { return step / codec.BlockSteps * codec.BlockSteps }

// pageOf a step is the number of its page.
func pageOf(step int64) int64 { return step / pageSteps }
