package history

import (
	"math"
	"sync/atomic"
	"time"
	"weak"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// history holds the values of one container. The value of a step is the highest one of all replicas: of CPU in
// cores, of memory in bytes. Store.mutex guards it. All of its series have the same window and charge the same
// share.
type history struct {
	cpu, memory series
	// peak holds the highest CPU usage within each step, in cores; nil while the source has yielded no CPUPeak.
	peak *series
	// restored is true once a checkpoint was put under the values, or was found to be of no use. It prevents a
	// second attempt at every pass.
	restored bool
	// packed describes the last checkpoint that was made of the history; see Store.Checkpoint.
	packed packed
	// implausible counts what was dropped in the last day; nil: nothing was. It takes less than 1 KiB.
	implausible *implausible
	// version changes with every change of the values. digested is the version that digest was made of: a digest
	// with digested != version is stale and is made again.
	version, digested uint64
	// digest is weak, so that it takes memory only while a caller uses it, and at most until the next garbage
	// collection. The packed values stay in any case, and another digest is made from them.
	digest weak.Pointer[digest]
}

// births counts the histories of the process. A history's first version is its number of birth shifted by 24 bits,
// so that two histories never have the same version. Without that, a history that is forgotten and wanted again
// could repeat a version, and Store.Checkpoint would return the stored bytes for other values.
var births atomic.Uint64

// newHistory is empty, with no window yet.
func newHistory(share *share) *history {
	return &history{cpu: newSeries(share), memory: newSeries(share), version: births.Add(1) << 24}
}

// each visits the series that there are.
func (h *history) each(visit func(*series)) {
	visit(&h.cpu)
	if h.peak != nil {
		visit(h.peak)
	}
	visit(&h.memory)
}

// slide moves the window of all series to the steps from first to last. The version changes only where values fell
// out of the window, or came into it: to move over steps without values changes no profile.
func (h *history) slide(first, last int64) {
	different := false
	h.each(func(s *series) { different = s.slide(first, last) || different })
	if different {
		h.version++
	}
}

// setBack moves the window back after a clock that was ahead has been put right. The version always changes,
// because the steps that are visible are others.
func (h *history) setBack(first, last int64) {
	h.each(func(s *series) { s.setBack(first, last) })
	h.version++
}

// newest returns the newest step from first to last that has a value of CPU or of memory; first-1 where none has.
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

// steps returns the steps that have a value of CPU or of memory, oldest first. A measure that is missing in a step
// is NaN. MemoryPeak is always NaN: a source yields memory as the highest value of the step already.
func (h *history) steps(step time.Duration) []recommender.StepUsage {
	first, last := h.cpu.first, h.cpu.last
	cpu, peak, memory := h.cpu.values(first, last), h.peakValues(first, last), h.memory.values(first, last)
	steps := make([]recommender.StepUsage, 0, len(cpu))
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

// peaks returns the series of CPU peaks for writing. It makes the series, with the same window as cpu, when the
// source yields peaks for the first time.
func (h *history) peaks() *series {
	if h.peak == nil {
		peak := newSeries(h.cpu.share)
		peak.slide(h.cpu.first, h.cpu.last)
		h.peak = &peak
	}
	return h.peak
}

// maxCPU returns the highest CPU usage of the steps from first to last, in cores, peaks within the steps included.
// The result is below zero where nothing was measured.
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

// release gives all bytes back to the share. The history must not be used afterwards.
func (h *history) release() { h.each((*series).release) }

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
