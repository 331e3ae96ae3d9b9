package node

import (
	"time"

	"attune.io/attune/recommender"
)

// slots are a ring of the highest usage in each of the newest spans of time, as whole quanta plus one: 4 bytes a slot,
// and 0 where nothing was measured. Slot n is at n modulo their number.
type slots struct {
	length  time.Duration
	quantum recommender.Usage
	// newest is the number of the newest slot. Slots are numbered since the epoch.
	newest int64
	values []uint32
}

// quanta: a thousandth of a millicore, up to 4,294 cores; a page of memory, up to 16 TiB.
var quanta = [2]recommender.Usage{recommender.CPU: 1e-3, recommender.Memory: 4096}

// newSlots has room for a window in slots of whole seconds.
func newSlots(r recommender.Resource, window, length time.Duration) slots {
	// One more, as the window seldom begins with a slot.
	return slots{length: length, quantum: quanta[r], values: make([]uint32, window/length+1)}
}

// number of the slot that holds the time.
func (s *slots) number(at time.Time) int64 {
	seconds, length := at.Unix(), int64(s.length/time.Second)
	return (seconds - remainder(seconds, length)) / length
}

// remainder of a division that rounds down.
func remainder(a, b int64) int64 { return (a%b + b) % b }

// add a usage. One that is not a number or below zero counts as not measured; one that is older than every slot is
// ignored.
func (s *slots) add(at time.Time, usage recommender.Usage) {
	number := s.number(at)
	if !(usage >= 0) || number <= s.newest-int64(len(s.values)) {
		return
	}
	s.advance(number)
	const most = 1<<32 - 1
	value := uint32(min((usage/s.quantum).RoundUp()+1, most))
	place := &s.values[s.place(number)]
	*place = max(*place, value)
}

// advance makes room for the slot and forgets what is too old.
func (s *slots) advance(number int64) {
	first := max(s.newest+1, number-int64(len(s.values))+1)
	for n := first; n <= number; n++ {
		s.values[s.place(n)] = 0
	}
	s.newest = max(s.newest, number)
}

func (s *slots) place(number int64) int64 { return remainder(number, int64(len(s.values))) }

// each visits the measured slots that overlap the time after from, up to to.
func (s *slots) each(from, to time.Time, visit func(recommender.Usage)) {
	first := max(s.number(from), s.newest-int64(len(s.values))+1)
	for n := first; n <= min(s.number(to), s.newest); n++ {
		if value := s.values[s.place(n)]; value > 0 {
			visit(recommender.Usage(value-1) * s.quantum)
		}
	}
}

// measured is the time between measured slots that overlap the time after from, up to to, without the gaps.
func (s *slots) measured(from, to time.Time) time.Duration {
	var sum time.Duration
	gap := maxGap
	for n := max(s.number(from), s.newest-int64(len(s.values))+1); n <= min(s.number(to), s.newest); n++ {
		gap += s.length
		if s.values[s.place(n)] == 0 {
			continue
		}
		if gap <= maxGap {
			sum += gap
		}
		gap = 0
	}
	return sum
}
