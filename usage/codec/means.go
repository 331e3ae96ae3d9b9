package codec

import (
	"math"
	"slices"
	"time"
)

// Means has the mean usage of a workload's pods, by resource and number of pods: which values occurred, and when each
// was last seen. The order of the values is not kept, so that reading a step twice, or late, changes nothing.
//
// A mean is kept in a range that contains it, by its number of pods. Means of the same number within about 2 % share a
// range. If there are more than MostMeans ranges, the two closest ones of a number become one: what is kept always
// includes what was measured. The zero value is empty.
type Means struct {
	// Since is the oldest minute from which on all means are kept, in minutes since 1970; 0: all are.
	Since int64
	// ranges are sorted by compareRanges.
	ranges []meanRange
}

// MostMeans bounds the ranges of Means, so that they take at most 4 KiB.
const MostMeans = 288

// mostPods is the largest number of pods that a range can have.
const mostPods = 1<<15 - 1

// meanRange is a range of means. Times are the lowest 16 bits of minutes since 1970: enough for 45 days.
type meanRange struct {
	// ready pods; of has the resource in its highest bit, and the number of unready pods.
	ready, of uint16
	// low and high are codes of the bounds (meanOf).
	low, high uint16
	// lowAt and highAt are when the bounds were seen, seen when any mean of the range was.
	lowAt, highAt, seen uint16
}

// Mean is a range of means as measured.
type Mean struct {
	// Memory is in bytes, otherwise CPU in cores.
	Memory bool
	// Ready and Unready are the number of pods whose mean it is, and of others.
	Ready, Unready int
	// Least and Greatest contain what was measured.
	Least, Greatest float64
	// LeastAt and GreatestAt are when about these were seen, and Seen when the newest mean of the range was, in minutes
	// since 1970.
	LeastAt, GreatestAt, Seen int64
}

const (
	// meanCodes is the number of codes per doubling: each is 0.07 % above the one before.
	meanCodes = 1024
	// meanShared is the number of codes whose means share a range.
	meanShared = 1 << 5
)

// codeOf returns the greatest code with a value of at most v, so that the next code has a greater one.
func codeOf(v float64) uint16 {
	if !(v >= MinValue) {
		return 0
	}
	code := uint16(min(math.MaxUint16-1, 1+meanCodes*math.Log2(v/MinValue)))
	switch { // rounding
	case meanOf(code) > v:
		code--
	case meanOf(code+1) < v:
		code++
	}
	return min(code, math.MaxUint16-1)
}

// meanOf is the value of a code.
func meanOf(code uint16) float64 {
	if code == 0 {
		return 0
	}
	return MinValue * math.Exp2(float64(code-1)/meanCodes)
}

// shared is the number of the range that a code belongs to before ranges are merged.
func shared(code uint16) uint16 { return code / meanShared }

// highest is the greatest code of a mean in the range. high is one above, because it is rounded up.
func (m *meanRange) highest() uint16 { return m.high - 1 }

// compareRanges orders ranges by resource, number of pods and usage.
func compareRanges(a, b *meanRange) int {
	for _, d := range [...]int{int(a.of>>15) - int(b.of>>15), int(a.ready) - int(b.ready), int(a.of) - int(b.of), int(a.low) - int(b.low)} {
		if d != 0 {
			return d
		}
	}
	return 0
}

// sameFleet reports whether two ranges have the same resource and numbers of pods.
func (m *meanRange) sameFleet(other *meanRange) bool {
	return m.ready == other.ready && m.of == other.of
}

// Add adds the mean of so many pods, in cores or bytes, measured at a minute since 1970. It returns false if it cannot
// be kept: the numbers are too large. The caller's mean is a number of at least 0.
func (m *Means) Add(memory bool, ready, unready int, mean float64, minute int64) bool {
	if ready < 0 || ready > mostPods || unready < 0 || unready > mostPods {
		return false
	}
	code := codeOf(mean)
	added := meanRange{ready: uint16(ready), of: uint16(unready), low: code, high: code + 1, lowAt: uint16(minute), highAt: uint16(minute), seen: uint16(minute)}
	if memory {
		added.of |= 1 << 15
	}
	i, _ := slices.BinarySearchFunc(m.ranges, &added, func(a meanRange, b *meanRange) int { return compareRanges(&a, b) })
	for _, near := range [...]int{i - 1, i} {
		if near < 0 || near >= len(m.ranges) || !m.ranges[near].sameFleet(&added) {
			continue
		}
		if of := &m.ranges[near]; shared(of.low) <= shared(code) && shared(code) <= shared(of.highest()) {
			of.include(&added)
			return true
		}
	}
	m.insert(i, added)
	m.shrink(MostMeans, minute)
	return true
}

// include widens the range by another one. Of the times of one value the newest counts.
func (m *meanRange) include(added *meanRange) {
	if added.low < m.low || added.low == m.low && later(added.lowAt, m.lowAt) {
		m.low, m.lowAt = added.low, added.lowAt
	}
	if added.high > m.high || added.high == m.high && later(added.highAt, m.highAt) {
		m.high, m.highAt = added.high, added.highAt
	}
	if later(added.seen, m.seen) {
		m.seen = added.seen
	}
}

// later compares times that are less than 22 days apart.
func later(a, b uint16) bool { return int16(a-b) > 0 }

// insert a range. Room grows by a quarter, so that it is never much more than needed.
func (m *Means) insert(i int, added meanRange) {
	if len(m.ranges) == cap(m.ranges) {
		m.ranges = append(make([]meanRange, 0, min(MostMeans+1, len(m.ranges)+len(m.ranges)/4+4)), m.ranges...)
	}
	m.ranges = slices.Insert(m.ranges, i, added)
}

// shrink merges the closest ranges until at most most are left. If no two have the same numbers of pods, it drops the
// range that was seen least recently: Since then says so.
func (m *Means) shrink(most int, minute int64) {
	for len(m.ranges) > most {
		closest, least := -1, math.MaxInt
		for i := 1; i < len(m.ranges); i++ {
			a, b := &m.ranges[i-1], &m.ranges[i]
			if gap := int(b.low) - int(a.high); a.sameFleet(b) && gap < least {
				closest, least = i-1, gap
			}
		}
		if closest >= 0 {
			m.ranges[closest].include(&m.ranges[closest+1])
			m.ranges = slices.Delete(m.ranges, closest+1, closest+2)
			continue
		}
		oldest := 0
		for i := range m.ranges {
			if minuteOf(m.ranges[i].seen, minute) < minuteOf(m.ranges[oldest].seen, minute) {
				oldest = i
			}
		}
		m.Since = max(m.Since, minuteOf(m.ranges[oldest].seen, minute)+1)
		m.ranges = slices.Delete(m.ranges, oldest, oldest+1)
	}
}

// future is how far after now a time may seem to be, in minutes: the clock was set back.
const future = 1 << 12

// minuteOf returns the minute since 1970 with these lowest bits, at most 2^16 minutes ago.
func minuteOf(low uint16, now int64) int64 {
	ago := int64(uint16(now) - low)
	if ago >= 1<<16-future {
		return now // measured under a clock that was ahead
	}
	return now - ago
}

// Forget drops the ranges that were not seen after a minute.
func (m *Means) Forget(before, now int64) {
	m.ranges = slices.DeleteFunc(m.ranges, func(of meanRange) bool { return minuteOf(of.seen, now) <= before })
	for i := range m.ranges {
		of := &m.ranges[i]
		for _, at := range []*uint16{&of.lowAt, &of.highAt} {
			if minuteOf(*at, now) <= before {
				*at = of.seen
			}
		}
	}
	if m.Since <= before {
		m.Since = 0
	}
}

// SetBack replaces times after now, which were read under a clock that was ahead, by now.
func (m *Means) SetBack(now int64) {
	for i := range m.ranges {
		of := &m.ranges[i]
		for _, at := range []*uint16{&of.lowAt, &of.highAt, &of.seen} {
			*at = uint16(minuteOf(*at, now))
		}
	}
	m.Since = min(m.Since, now)
}

// Merge adds the ranges of others.
func (m *Means) Merge(others *Means, now int64) {
	m.Since = max(m.Since, others.Since)
	for i := range others.ranges {
		added := others.ranges[i]
		at, found := slices.BinarySearchFunc(m.ranges, &added, func(a meanRange, b *meanRange) int { return compareRanges(&a, b) })
		if found {
			m.ranges[at].include(&added)
		} else {
			m.insert(at, added)
		}
		m.join(at)
		m.shrink(MostMeans, now)
	}
}

// join makes the ranges next to one that overlap with it a part of it.
func (m *Means) join(i int) {
	for i > 0 && m.ranges[i-1].overlaps(&m.ranges[i]) {
		i--
	}
	for i+1 < len(m.ranges) && m.ranges[i].overlaps(&m.ranges[i+1]) {
		m.ranges[i].include(&m.ranges[i+1])
		m.ranges = slices.Delete(m.ranges, i+1, i+2)
	}
}

// overlaps reports whether a range shares numbers with the next one.
func (m *meanRange) overlaps(next *meanRange) bool {
	return m.sameFleet(next) && shared(next.low) <= shared(m.highest())
}

// Clone returns a copy.
func (m *Means) Clone() Means { return Means{Since: m.Since, ranges: slices.Clone(m.ranges)} }

// Len is the number of ranges.
func (m *Means) Len() int { return len(m.ranges) }

// Bytes is the size of the ranges in memory.
func (m *Means) Bytes() int { return cap(m.ranges) * meanRangeBytes }

// meanRangeBytes is the size of a range.
const meanRangeBytes = 7 * 2

// Each visits the ranges of a resource.
func (m *Means) Each(memory bool, now time.Time, visit func(Mean)) {
	minute := now.Unix() / 60
	for i := range m.ranges {
		of := &m.ranges[i]
		if of.of>>15 == 1 != memory {
			continue
		}
		visit(Mean{
			Memory: memory, Ready: int(of.ready), Unready: int(of.of & mostPods), Least: meanOf(of.low), Greatest: meanOf(of.high),
			LeastAt: minuteOf(of.lowAt, minute), GreatestAt: minuteOf(of.highAt, minute), Seen: minuteOf(of.seen, minute),
		})
	}
}
