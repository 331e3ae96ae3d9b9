package store

import (
	"math"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// history holds one container's values, the highest replica's of each step.
type history struct {
	cpu, peak, memory ring
	// restored: a checkpoint was put under it, or was of no use.
	restored bool
	// version changes with the values; profile was made of the one that profiled names.
	version, profiled uint64
	profile           recommender.Profile
}

func newHistory(window int64, budget *budget) *history {
	return &history{
		cpu:     newRing(window, budget),
		peak:    newRing(window, budget),
		memory:  newRing(window, budget),
		version: 1,
	}
}

// slide moves the window.
func (h *history) slide(first, last int64) {
	forgot := h.cpu.slide(first, last)
	forgot = h.peak.slide(first, last) || forgot
	forgot = h.memory.slide(first, last) || forgot
	if forgot {
		h.version++
	}
}

// steps are those with any value, oldest first.
func (h *history) steps(step time.Duration) []recommender.StepUsage {
	var steps []recommender.StepUsage
	for n := h.cpu.first; n <= h.cpu.last; n++ {
		cpu, memory := h.cpu.at(n), h.memory.at(n)
		if math.IsNaN(cpu) && math.IsNaN(memory) {
			continue
		}
		steps = append(steps, recommender.StepUsage{
			At:          usage.StepEnd(n, step),
			CPUCores:    cpu,
			MemoryBytes: memory,
			CPUPeak:     h.peak.at(n),
			MemoryPeak:  math.NaN(),
		})
	}
	return steps
}

func (h *history) bytes() int64 { return h.cpu.bytes() + h.peak.bytes() + h.memory.bytes() }

func (h *history) release() {
	h.cpu.release()
	h.peak.release()
	h.memory.release()
}
