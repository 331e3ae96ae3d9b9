package history

import (
	"math"
	"sync/atomic"
	"time"
	"weak"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// history has the values of one container. The value of a step is the highest one of all replicas, in cores or bytes.
// Store.mutex guards it. All of its series have the same window and charge the same share.
type history struct {
	cpu, memory series
	// peak has the highest CPU usage within each step, in cores; nil while the source has yielded no CPUPeak.
	peak   *series
	starts starts
	// restored is true after a checkpoint was merged, or was found unusable. It prevents a second attempt at every
	// reconcile.
	restored bool
	// packed describes the last checkpoint of the history; see Store.Checkpoint.
	packed packed
	// seen is when the resource was last measured within a step that had not ended, in Unix seconds, by resource.
	seen [2]uint32
	// implausible counts samples dropped in the last day; nil: none. It takes less than 1 KiB.
	implausible *implausible
	// version changes with every change of the values. digested is the version of digest: if it differs from version,
	// digest is stale and is computed again.
	version, digested uint64
	// digest is weak, so that it takes memory only while a caller uses it, and at most until the next garbage
	// collection. The packed values stay, so another digest can be computed from them.
	digest weak.Pointer[digest]
}

// births counts the histories of this process. The first version of a history is its count shifted by 24 bits, so that
// two histories never have the same version. Otherwise a history that is dropped and created again could repeat a
// version, and Store.Checkpoint would return the stored bytes for other values.
var births atomic.Uint64

// newHistory returns an empty history without a window.
func newHistory(share *share) *history {
	return &history{cpu: newSeries(share), memory: newSeries(share), version: births.Add(1) << 24}
}

// starts has the highest CPU of starts, in cores: of the newest period of the window's length with a start, and of the
// period before it. So a start is known for one window to two.
type starts struct {
	period  int32
	highest [2]float32
}

// raise records a start in a step, and reports whether that is new.
func (s *starts) raise(value float32, step, window int64) bool {
	before, period := *s, int32(step/window)
	switch ahead := period - s.period; {
	case value == 0 || ahead < -1:
		return false
	case ahead == -1:
		s.highest[1] = max(s.highest[1], value)
		return *s != before
	case ahead == 1:
		s.highest = [2]float32{0, s.highest[0]}
	case ahead > 1:
		s.highest = [2]float32{}
	}
	s.period, s.highest[0] = period, max(s.highest[0], value)
	return *s != before
}

// within is the highest of the starts that may be within the window that ends with a step.
func (s *starts) within(last, window int64) float32 {
	switch int32(last/window) - s.period {
	case 0:
		return max(s.highest[0], s.highest[1])
	case 1:
		return s.highest[0]
	}
	return 0
}

// each visits every existing series.
func (h *history) each(visit func(*series)) {
	visit(&h.cpu)
	if h.peak != nil {
		visit(h.peak)
	}
	visit(&h.memory)
}

// slide moves the window of all series to the steps from first to last. The version changes only if values left or
// entered the window: moving over empty steps changes no profile.
func (h *history) slide(first, last int64) {
	different := false
	h.each(func(s *series) { different = s.slide(first, last) || different })
	if different {
		h.version++
	}
}

// setBack moves the window back after a clock that was ahead was corrected. The version always changes, because other
// steps become visible.
func (h *history) setBack(first, last int64) {
	h.each(func(s *series) { s.setBack(first, last) })
	h.version++
}

// newest returns the newest step from first to last that has a value of CPU or memory; first-1 if there is no such
// step.
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

// see records that a resource was measured in the running step, and reports whether it was. The version changes, so that
// policies notice, but once per step.
func (h *history) see(r recommender.Resource, values []float64, now time.Time, step time.Duration) bool {
	if measured(values) == 0 {
		return false
	}
	if at := time.Unix(int64(h.seen[r]), 0); now.Sub(at) >= step {
		h.seen[r] = uint32(now.Unix())
		h.version++
	}
	return true
}

// steps returns the steps that have a value of CPU or memory, oldest first. A missing value is NaN. MemoryPeak is
// always NaN, because sources yield memory as the highest value of the step.
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

// peaks returns the series of CPU peaks for writing. It creates the series, with the window of cpu, on first use.
func (h *history) peaks() *series {
	if h.peak == nil {
		peak := newSeries(h.cpu.share)
		peak.slide(h.cpu.first, h.cpu.last)
		h.peak = &peak
	}
	return h.peak
}

// maxCPU returns the highest CPU usage of the steps from first to last, in cores, including peaks within the steps. The
// result is negative if nothing was measured.
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

// release returns all bytes to the share. The history must not be used afterwards.
func (h *history) release() { h.each((*series).release) }

// measured counts the values that are not gaps.
func measured(values []float64) int {
	n := 0
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}

// gaps returns a number of steps without values.
func gaps(steps int64) []float64 {
	values := make([]float64, steps)
	for i := range values {
		values[i] = math.NaN()
	}
	return values
}
