package backtest

import (
	"math"
	"slices"
)

// Window keeps the values of a span of time, sorted by time and by size.
type Window struct {
	// Span in milliseconds; 0: unlimited.
	Span   int64
	times  []int64
	values []float64
	sorted []float64
}

// Add a value, and drop values older than the span; NaN was not measured.
func (w *Window) Add(at int64, value float64) {
	if !measured(value) {
		return
	}
	w.times, w.values = append(w.times, at), append(w.values, value)
	i, _ := slices.BinarySearch(w.sorted, value)
	w.sorted = slices.Insert(w.sorted, i, value)
	n := 0
	for w.Span > 0 && n < len(w.times) && w.times[n] <= at-w.Span {
		i, _ := slices.BinarySearch(w.sorted, w.values[n])
		w.sorted = slices.Delete(w.sorted, i, i+1)
		n++
	}
	w.times, w.values = w.times[n:], w.values[n:]
}

// Quantile interpolates between the two neighbours of a rank; NaN without values.
func (w *Window) Quantile(q float64) float64 {
	if len(w.sorted) == 0 {
		return math.NaN()
	}
	rank := q * float64(len(w.sorted)-1)
	low := int(rank)
	high := min(low+1, len(w.sorted)-1)
	return w.sorted[low] + (w.sorted[high]-w.sorted[low])*(rank-float64(low))
}

// most is the largest value; NaN without values.
func (w *Window) most() float64 {
	if len(w.sorted) == 0 {
		return math.NaN()
	}
	return w.sorted[len(w.sorted)-1]
}
