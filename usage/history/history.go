package history

import (
	"math"
	"sync/atomic"
	"time"
	"weak"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// history holds one container's values, the highest replica's of each step: of CPU in cores, of memory in bytes.
type history struct {
	cpu, memory series
	// peak of CPU within each step; nil where the source tells of no peaks.
	peak *series
	// restored: a checkpoint was put under it, or was of no use.
	restored bool
	packed   packed
	// version changes with the values; digest was made of the version digested. It stays while it is in use, and until the
	// next garbage collection.
	version, digested uint64
	digest            weak.Pointer[digest]
}

// births counts histories: two never have the same version.
var births atomic.Uint64

// newHistory is empty, with no window yet.
func newHistory(share *share) *history {
	return &history{cpu: newSeries(share), memory: newSeries(share), version: births.Add(1) << 24}
}

// slide moves the window.
func (h *history) slide(first, last int64) {
	forgot := h.cpu.slide(first, last)
	if h.peak != nil {
		forgot = h.peak.slide(first, last) || forgot
	}
	forgot = h.memory.slide(first, last) || forgot
	if forgot {
		h.version++
	}
}

// setBack moves the window back: a clock was ahead, and was put right.
func (h *history) setBack(first, last int64) {
	h.cpu.setBack(first, last)
	if h.peak != nil {
		h.peak.setBack(first, last)
	}
	h.memory.setBack(first, last)
	h.version++
}

// newest step with a value of the steps from first to last; first-1: there is none.
func (h *history) newest(first, last int64) int64 {
	for _, s := range []*series{&h.cpu, &h.memory} {
		values := s.values(first, last)
		for len(values) > 0 && math.IsNaN(values[len(values)-1]) {
			values = values[:len(values)-1]
		}
		first += int64(len(values))
	}
	return first - 1
}

// steps are those with any value, oldest first.
func (h *history) steps(step time.Duration) []recommender.StepUsage {
	var steps []recommender.StepUsage
	first, last := h.cpu.first, h.cpu.last
	cpu, peak, memory := h.cpu.values(first, last), h.peakValues(first, last), h.memory.values(first, last)
	for i := range cpu {
		if math.IsNaN(cpu[i]) && math.IsNaN(memory[i]) {
			continue
		}
		steps = append(steps, recommender.StepUsage{
			At:          usage.StepEnd(first+int64(i), step),
			CPUCores:    cpu[i],
			MemoryBytes: memory[i],
			CPUPeak:     peak[i],
			MemoryPeak:  math.NaN(),
		})
	}
	return steps
}

// peaks to be written to.
func (h *history) peaks() *series {
	if h.peak == nil {
		peak := newSeries(h.cpu.share)
		peak.slide(h.cpu.first, h.cpu.last)
		h.peak = &peak
	}
	return h.peak
}

// maxCPU of the steps from first to last, in cores, within the steps too; below zero where there is none.
func (h *history) maxCPU(first, last int64) float64 {
	highest := h.cpu.max(first, last)
	if h.peak != nil {
		highest = max(highest, h.peak.max(first, last))
	}
	return highest
}

// peakValues of the steps from first to last.
func (h *history) peakValues(first, last int64) []float64 {
	if h.peak == nil {
		return gaps(last - first + 1)
	}
	return h.peak.values(first, last)
}

// bytes that the values take of the share.
func (h *history) bytes() int64 {
	n := h.cpu.bytes() + h.memory.bytes()
	if h.peak != nil {
		n += h.peak.bytes()
	}
	return n
}

// release what was taken of the share: the history is not used any more.
func (h *history) release() {
	h.cpu.release()
	h.memory.release()
	if h.peak != nil {
		h.peak.release()
	}
}

// maxOf a value and others; NaN where all are.
func maxOf(value float64, others []float64) float64 {
	for _, v := range others {
		if v > value || math.IsNaN(value) {
			value = v
		}
	}
	return value
}

// measured counts the values that are no gaps.
func measured(values []float64) int {
	n := 0
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}

// gaps are a number of steps without values.
func gaps(steps int64) []float64 {
	values := make([]float64, steps)
	for i := range values {
		values[i] = math.NaN()
	}
	return values
}
