package store

import "math"

const (
	// pageSteps is the number of steps whose highest value is kept exactly: a day of 5-minute steps.
	pageSteps = 12 * blockSteps
	// openSteps are never packed: the newest ones are read again, and may be others then.
	openSteps = overlap + 1
	// tailSteps is the most that are not packed for long.
	tailSteps = blockSteps + openSteps
)

// measure holds the values of one measure in the window's steps: the newest ones as they are, older ones
// packed in blocks of blockSteps, where each is off by MaxError at most and the highest of each page is
// known exactly.
type measure struct {
	// first and last are the window: 0 and -1 when nothing was ever in it.
	first, last int64
	// start is the first step of packed, next that of tail. Both are the first of a block.
	start, next int64
	packed      []byte
	// highest values of the packed steps of each page, from start's on.
	highest []float64
	tail    []float64

	share *share
	taken int64
}

func newMeasure(share *share) measure { return measure{last: -1, share: share} }

func (m *measure) empty() bool { return len(m.packed)+len(m.tail) == 0 }

// slide moves the window and forgets what fell out of it; it says whether that may have been anything.
func (m *measure) slide(first, last int64) bool {
	m.last = max(m.last, last)
	if first <= m.first {
		return false
	}
	m.first = first
	if m.empty() || m.start >= first {
		return false
	}
	m.forget()
	return true
}

// setBack moves the window back. What is kept of steps after it is not seen before their time has come.
func (m *measure) setBack(first, last int64) { m.first, m.last = first, last }

// forget the blocks that the window has left.
func (m *measure) forget() {
	size, before := 0, pageOf(m.start)
	for size < len(m.packed) && m.start+blockSteps <= m.first {
		size += int(m.packed[size])
		m.start += blockSteps
	}
	if size > 0 {
		m.packed = m.packed[:copy(m.packed, m.packed[size:])]
		gone := min(int(pageOf(m.start)-before), len(m.highest))
		m.highest = m.highest[:copy(m.highest, m.highest[gone:])]
	}
	if len(m.packed) > 0 {
		return
	}
	m.highest = m.highest[:0]
	if left := blockOf(m.first) - m.next; left >= int64(len(m.tail)) {
		m.release()
	} else if left > 0 {
		m.tail = m.tail[:copy(m.tail, m.tail[left:])]
		m.next += left
	}
	m.start = m.next
}

// room says whether there is enough for values from the step on, so many steps long.
func (m *measure) room(first, steps int64) bool {
	if first >= m.next && !m.empty() {
		return true // close looks.
	}
	blocks := steps/blockSteps + 2
	return m.share.left() >= blocks*mostBlock+8*(tailSteps+m.pages())
}

// pages that the window's steps may be in.
func (m *measure) pages() int64 { return (m.last-m.first)/pageSteps + 2 }

// open unpacks whole pages, so that every step from the one on can be put. What is packed keeps as exact as
// it was when it is packed again.
func (m *measure) open(step int64) {
	switch {
	case m.empty():
		m.start, m.next = blockOf(step), blockOf(step)
		return
	case step >= m.next:
		return
	}
	from := max(m.start, step/pageSteps*pageSteps)
	values := m.values(from, m.next-1)
	size, at := 0, m.start
	for ; at < from; at += blockSteps {
		size += int(m.packed[size])
	}
	m.restorePeaks(values, from)
	m.packed, m.highest = m.packed[:size], m.highest[:pageOf(from)-pageOf(m.start)]
	m.tail, m.next = append(values, m.tail...), from
	if step < m.start {
		earlier := nothing(m.start - blockOf(step))
		m.tail = append(earlier, m.tail...)
		m.start, m.next = blockOf(step), blockOf(step)
	}
}

// restorePeaks puts the exact highest value of each page where it is, or at one of the same mark.
func (m *measure) restorePeaks(values []float64, from int64) {
	for i := 0; i < len(values); {
		end := min(len(values), i+int(pageSteps-(from+int64(i))%pageSteps))
		highest := m.highestOf(from + int64(i))
		mark := markOf(highest)
		for ; i < end; i++ {
			if mark != markGap && markOf(values[i]) == mark {
				values[i], mark = highest, markGap
			}
		}
	}
}

// put a value of a step that is open; false: it is outside the window.
func (m *measure) put(step int64, value float64) bool {
	if step < m.first || step > m.last || step < m.next {
		return false
	}
	for int64(len(m.tail)) <= step-m.next {
		if m.tail == nil {
			m.tail = make([]float64, 0, tailSteps)
		}
		m.tail = append(m.tail, math.NaN())
	}
	m.tail[step-m.next] = value
	return true
}

// open steps' value, NaN without one.
func (m *measure) opened(step int64) float64 {
	if i := step - m.next; i >= 0 && i < int64(len(m.tail)) && step >= m.first {
		return m.tail[i]
	}
	return math.NaN()
}

// close packs what has become old. It returns how many values found no room, and are lost.
func (m *measure) close() (lost int) {
	done := 0
	for len(m.tail)-done >= tailSteps {
		lost += m.pack(m.tail[done : done+blockSteps])
		done += blockSteps
	}
	if done > 0 {
		m.tail = m.tail[:copy(m.tail, m.tail[done:])]
	}
	if cap(m.tail) > tailSteps {
		m.tail = append(make([]float64, 0, tailSteps), m.tail...)
	}
	m.charge()
	return lost
}

// pack a block, or a gap where there is no room for it.
func (m *measure) pack(values []float64) (lost int) {
	var room [2 * mostBlock]byte
	block := packBlock(room[:0], values)
	if grown := len(m.packed) + len(block); grown > cap(m.packed) {
		// What the tail takes beyond its usual size is given back at once.
		if m.share.left()+m.taken < int64(roundUp(grown))+8*(tailSteps+m.pages()) {
			lost = measured(values)
			block = packBlock(block[:0], nothing(blockSteps))
		}
		m.packed = append(make([]byte, 0, roundUp(len(m.packed)+len(block))), m.packed...)
	}
	m.packed = append(m.packed, block...)
	if m.highest == nil {
		m.highest = make([]float64, 0, m.pages())
	}
	for len(m.highest) <= int(pageOf(m.next)-pageOf(m.start)) {
		m.highest = append(m.highest, math.NaN())
	}
	if lost == 0 {
		of := &m.highest[pageOf(m.next)-pageOf(m.start)]
		*of = highestOf(*of, values)
	}
	m.next += blockSteps
	return lost
}

// highestOf the values and another; NaN where there is none.
func highestOf(highest float64, values []float64) float64 {
	for _, v := range values {
		if v > highest || math.IsNaN(highest) {
			highest = v
		}
	}
	return highest
}

func measured(values []float64) int {
	n := 0
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}

// blocks visits the packed blocks that steps from first to last are in.
func (m *measure) blocks(first, last int64, see func(at int64, b *block, highest float64)) {
	var b block
	at := m.start
	for rest := m.packed; len(rest) > 0 && at <= last; rest = rest[rest[0]:] {
		if at+blockSteps > first {
			b.unpack(rest)
			see(at, &b, m.highestOf(at))
		}
		at += blockSteps
	}
}

// highestOf a packed step's page.
func (m *measure) highestOf(step int64) float64 { return m.highest[pageOf(step)-pageOf(m.start)] }

// values of the steps from first to last, both included, NaN where nothing was measured.
func (m *measure) values(first, last int64) []float64 {
	values := nothing(max(0, last-first+1))
	from, to := max(first, m.first), min(last, m.last)
	m.blocks(from, to, func(at int64, b *block, highest float64) {
		for i := max(0, from-at); i < min(blockSteps, to-at+1); i++ {
			if v := b.value(int(i)); !math.IsNaN(v) {
				values[at+i-first] = min(v, highest)
			}
		}
	})
	for step := max(from, m.next); step <= min(to, m.next+int64(len(m.tail))-1); step++ {
		values[step-first] = m.opened(step)
	}
	return values
}

// peak is the highest value of the steps from first to last, both included; below zero where there is none.
// Of the packed ones, those of the same mark as their page's highest are told as that one.
func (m *measure) peak(first, last int64) float64 {
	from, to := max(first, m.first), min(last, m.last)
	peak := -1.0
	m.blocks(from, to, func(at int64, b *block, highest float64) {
		peak = max(peak, b.top(int(max(0, from-at)), int(min(blockSteps, to-at+1)), highest))
	})
	for step := max(from, m.next); step <= min(to, m.next+int64(len(m.tail))-1); step++ {
		if v := m.opened(step); v > peak {
			peak = v
		}
	}
	return peak
}

// top is the highest value of the steps from one to before another; below zero where there is none. Of two marks
// the higher one never stands for less.
func (b *block) top(from, to int, highest float64) float64 {
	if from >= to {
		return -1
	}
	top := from
	for i := from + 1; i < to; i++ {
		if b.marks[i] > b.marks[top] {
			top = i
		}
	}
	return b.peak(top, highest)
}

// peak is a step's value as the highest of a span; below zero where there is none.
func (b *block) peak(i int, highest float64) float64 {
	v := b.value(i)
	switch {
	case math.IsNaN(v):
		return -1
	case b.known > 0:
		return v
	case v*(1+MaxError)*(1+MaxError) > highest && b.marks[i] == markOf(highest):
		return highest
	}
	return v
}

// roundUp to what the memory allocator hands out anyway, or near it.
func roundUp(size int) int { return (size + 63) &^ 63 }

// around is what is taken beside the packed blocks.
func (m *measure) around() int64 { return 8 * int64(cap(m.tail)+cap(m.highest)) }

// charge the share for what is taken now.
func (m *measure) charge() {
	taken := int64(cap(m.packed)) + m.around()
	m.share.take(taken - m.taken)
	m.taken = taken
}

// bytes that the values take.
func (m *measure) bytes() int64 { return m.taken }

// release gives the room back.
func (m *measure) release() {
	m.packed, m.highest, m.tail = nil, nil, nil
	m.charge()
}

func blockOf(step int64) int64 { return step / blockSteps * blockSteps }

func pageOf(step int64) int64 { return step / pageSteps }
