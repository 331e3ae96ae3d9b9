package backtest

import "math"

// histogram has buckets that grow by a ratio, and weights that decay with time.
type histogram struct {
	// first is the width of the first bucket, ratio the factor from one bucket to the next.
	first, ratio float64
	// halfLife is the time in which a weight halves, in milliseconds; 0: no decay.
	halfLife float64
	// since is the time at which a weight of 1 counts as 1. Weights of later samples are larger, so that existing
	// weights do not change.
	since   int64
	weights []float64
	total   float64
	// filled is true after any value was added, even with weight 0.
	filled bool
}

// mostBuckets bounds the memory of a histogram. The buckets of plausible usage are a few hundred.
const mostBuckets = 10_000

// bucket of a value. Bucket i begins at first * (ratio^i - 1) / (ratio - 1). Absurd values share the last bucket.
func (h *histogram) bucket(value float64) int {
	if value < h.first {
		return 0
	}
	return int(min(math.Log(value*(h.ratio-1)/h.first+1)/math.Log(h.ratio)+1e-9, mostBuckets))
}

// end of a bucket, which is the beginning of the next.
func (h *histogram) end(bucket int) float64 {
	return h.first * (math.Pow(h.ratio, float64(bucket+1)) - 1) / (h.ratio - 1)
}

// add a value with a weight; a negative weight removes it again. NaN was not measured.
func (h *histogram) add(at int64, value, weight float64) {
	if !measured(value) {
		return
	}
	if h.since == 0 {
		h.since = at
	}
	if h.halfLife > 0 {
		age := float64(at-h.since) / h.halfLife
		if age > 100 { // before the scale of new weights becomes too large for a float
			h.total = 0
			for i := range h.weights {
				h.weights[i] *= math.Exp2(-age)
				h.total += h.weights[i]
			}
			h.since, age = at, 0
		}
		weight *= math.Exp2(age)
	}
	h.filled = true
	i := h.bucket(value)
	if missing := i + 1 - len(h.weights); missing > 0 {
		h.weights = append(h.weights, make([]float64, missing)...)
	}
	h.weights[i] += weight
	h.total += weight
}

// percentile is the end of the bucket that reaches the fraction q of the weight; 0 if the total weight is not positive,
// NaN if the histogram is empty.
func (h *histogram) percentile(q float64) float64 {
	switch {
	case !h.filled:
		return math.NaN()
	case h.total <= 0:
		return 0
	}
	sum, last := 0.0, 0
	for i, w := range h.weights {
		if w <= 0 {
			continue
		}
		last = i
		if sum += w; sum >= q*h.total {
			return h.end(i)
		}
	}
	return h.end(last)
}

// peaks is a histogram in which the peak of each period counts once.
type peaks struct {
	histogram
	// peak of the period that ends at end.
	peak float64
	end  int64
}

// raise the peak of the period that ends at a time; NaN was not measured.
func (p *peaks) raise(end int64, used float64) {
	if !measured(used) || end == p.end && used <= p.peak {
		return
	}
	if end == p.end {
		p.add(end, p.peak, -1)
	}
	p.peak, p.end = used, end
	p.add(end, used, 1)
}
