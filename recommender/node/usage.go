package node

import (
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// Lengths of slots. A window includes every slot that it overlaps.
const (
	baseCPUSlot    = 30 * time.Second
	baseMemorySlot = time.Minute
)

// maxGap is the longest time between two samples that counts as measured: the longest window of a rate.
const maxGap = 2 * time.Minute

var baseWindows = [2]time.Duration{recommender.CPU: BaseCPUWindow, recommender.Memory: BaseMemoryWindow}

// mostBaseSlots bounds the slots of a base's window.
const mostBaseSlots = int(max(BaseCPUWindow/baseCPUSlot, BaseMemoryWindow/baseMemorySlot)) + 1

// Recent is the recent usage of one container of one pod: the highest CPU usage of every half minute for 10 minutes,
// and the highest memory of every minute for 30. It takes 320 bytes.
type Recent struct{ of [2]slots }

// NewRecent returns an empty Recent.
func NewRecent() *Recent {
	return &Recent{of: [2]slots{
		recommender.CPU:    newSlots(recommender.CPU, BaseCPUWindow, baseCPUSlot),
		recommender.Memory: newSlots(recommender.Memory, BaseMemoryWindow, baseMemorySlot),
	}}
}

// Add a usage measured at a time that is not in the future. CPU usage is passed as Waited returns it.
func (u *Recent) Add(r recommender.Resource, at time.Time, usage recommender.Usage) {
	u.of[r].add(at, usage)
}

// Base demand: the 75th percentile of the container's window. It returns false until half of the window was measured,
// because a pod's first minutes do not show its permanent need.
func (u *Recent) Base(r recommender.Resource, now time.Time) (recommender.Usage, bool) {
	window := baseWindows[r]
	if u.Measured(r, now) < window/2 {
		return 0, false
	}
	var room [mostBaseSlots]recommender.Usage
	values := room[:0]
	u.of[r].each(now.Add(-window), now, func(usage recommender.Usage) { values = append(values, usage) })
	slices.Sort(values)
	return recommender.Quantile(values, baseQuantile), true
}

// Measured is the measured part of the window that makes the base.
func (u *Recent) Measured(r recommender.Resource, now time.Time) time.Duration {
	return u.of[r].measured(now.Add(-baseWindows[r]), now)
}

// Seen reports whether one of the windows has a measurement.
func (u *Recent) Seen(now time.Time) bool {
	seen := false
	for _, r := range recommender.Resources {
		u.of[r].each(now.Add(-baseWindows[r]), now, func(recommender.Usage) { seen = true })
	}
	return seen
}

// Mean of the measurements since a time, from the first slot that begins then or later. It returns false without
// measurements.
func (u *Recent) Mean(r recommender.Resource, from, now time.Time) (recommender.Usage, bool) {
	var sum recommender.Usage
	measured := 0
	whole := from.Add(u.of[r].length - time.Nanosecond)
	u.of[r].each(whole, now, func(usage recommender.Usage) { sum, measured = sum+usage, measured+1 })
	if measured == 0 {
		return 0, false
	}
	return sum / recommender.Usage(measured), true
}

// slots are a ring with the highest usage of each of the newest time slots. A value is a number of whole quanta plus
// one, in 4 bytes; 0 means not measured. Slot n is at n modulo their number.
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
	// One more, because the window rarely begins with a slot.
	return slots{length: length, quantum: quanta[r], values: make([]uint32, window/length+1)}
}

// number of the slot that contains the time.
func (s *slots) number(at time.Time) int64 {
	seconds, length := at.Unix(), int64(s.length/time.Second)
	return (seconds - remainder(seconds, length)) / length
}

// remainder of a division that rounds down.
func remainder(a, b int64) int64 { return (a%b + b) % b }

// add a usage. NaN and negative usage count as not measured. Usage older than every slot is ignored.
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

// advance makes room for the slot and clears slots that are too old.
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
