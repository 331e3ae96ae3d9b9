package node

import (
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// Lengths of slots. A window includes the slots that it touches.
const (
	baseCPUSlot    = 30 * time.Second
	baseMemorySlot = time.Minute
)

// maxGap is the longest time between two samples that counts as measured: the longest window of a rate.
const maxGap = 2 * time.Minute

// mostBaseSlots bounds the slots of a base's window.
const mostBaseSlots = int(max(BaseCPUWindow/baseCPUSlot, BaseMemoryWindow/baseMemorySlot)) + 1

// Recent is the recent usage of one container of one pod: the highest CPU usage of every half minute for
// 10 minutes, and the highest memory of every minute for 30. It takes 320 bytes.
type Recent struct{ of [2]slots }

// NewRecent is empty.
func NewRecent() *Recent {
	return &Recent{of: [2]slots{
		recommender.CPU:    newSlots(recommender.CPU, BaseCPUWindow, baseCPUSlot),
		recommender.Memory: newSlots(recommender.Memory, BaseMemoryWindow, baseMemorySlot),
	}}
}

// Add a usage that was measured at a time that is not in the future; of CPU as Waited makes it.
func (u *Recent) Add(r recommender.Resource, at time.Time, usage recommender.Usage) {
	u.of[r].add(at, usage)
}

// Base demand: the 75th percentile of the container's window. It counts once half of its window was measured
// (false: it was not), since the first minutes of a pod say little of what it always needs.
func (u *Recent) Base(r recommender.Resource, now time.Time) (recommender.Usage, bool) {
	window := baseWindow(r)
	if u.Measured(r, now) < window/2 {
		return 0, false
	}
	var room [mostBaseSlots]recommender.Usage
	values := room[:0]
	u.of[r].each(now.Add(-window), now, func(usage recommender.Usage) { values = append(values, usage) })
	slices.Sort(values)
	return recommender.Quantile(values, baseQuantile), true
}

// Measured is how much of the window that makes the base was measured.
func (u *Recent) Measured(r recommender.Resource, now time.Time) time.Duration {
	return u.of[r].measured(now.Add(-baseWindow(r)), now)
}

// Seen: something was measured in one of the windows.
func (u *Recent) Seen(now time.Time) bool {
	seen := false
	for _, r := range recommender.Resources {
		u.of[r].each(now.Add(-baseWindow(r)), now, func(recommender.Usage) { seen = true })
	}
	return seen
}

func baseWindow(r recommender.Resource) time.Duration {
	if r == recommender.Memory {
		return BaseMemoryWindow
	}
	return BaseCPUWindow
}

// Mean of what was measured from a time on, from the first slot that begins then or later. False where nothing was.
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
