package history

import (
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// digest has the data of a container's profile: distributions of CPU and memory, by hour and in total. It is immutable:
// Store.Profile returns it to many callers at once.
type digest struct {
	profile recommender.Profile
	of      [2]resourceDigest
}

// resourceDigest has the distributions of one resource, by hour of the day and in total.
type resourceDigest struct {
	overall sketch
	hours   [24]sketch
	scale   scale
}

// newDigest computes a digest of the values in the window. step is the length of one step. It only reads the history,
// so a read lock of Store.mutex is enough.
func newDigest(h *history, step time.Duration) *digest {
	w := scratches.Get().(*scratch)
	defer scratches.Put(w)
	d := &digest{}
	for i, s := range []*series{&h.cpu, &h.memory} {
		of := &d.of[i]
		of.scale.unit = units[i]
		w.buckets[i] = of.gather(s, w.buckets[i])
		of.read(s.first, step, w.buckets[i], w, &d.profile.Of[i])
	}
	if cpu := &d.profile.Of[recommender.CPU]; cpu.Points > 0 && h.peak != nil {
		cpu.Peak = max(cpu.Peak, recommender.Usage(h.maxCPU(h.cpu.first, h.cpu.last)*1000))
	}
	d.profile.Starts = recommender.Usage(h.starts.within(h.cpu.last, max(1, h.cpu.last-h.cpu.first+1))) * 1000
	d.span(h.cpu.first, step, w)
	return d
}

// units convert measured amounts to recommender.Usage: cores to millicores, bytes to bytes.
var units = [...]float64{recommender.CPU: 1000, recommender.Memory: 1}

// scratch is the working memory of newDigest. It is reused for the next digest.
type scratch struct {
	// buckets of all steps of the window, by resource.
	buckets [2][]uint16
	// counts has, for each hour of the day and then for all hours, the number of steps in each of width buckets from
	// lowest on.
	counts     []uint32
	lowest     uint16
	width      int
	cumulative []cumulative
}

// sketches is one per hour of the day plus one for all hours.
const sketches = 24 + 1

// clear the counts for the buckets from lowest to highest.
func (w *scratch) clear(lowest, highest uint16) {
	w.lowest, w.width = lowest, int(highest-lowest)+1
	w.counts = slices.Grow(w.counts[:0], sketches*w.width)[:sketches*w.width]
	clear(w.counts)
}

// of returns the counts of an hour of the day, or of all hours.
func (w *scratch) of(sketch int) []uint32 { return w.counts[sketch*w.width : (sketch+1)*w.width] }

var scratches = sync.Pool{New: func() any { return &scratch{} }}

// span sets First, Last, Gaps and Runs of the profile. A step is measured if it has CPU or memory. A run ends if
// recommender.RunGap or more steps in a row are missing.
func (d *digest) span(from int64, step time.Duration, w *scratch) {
	first, last, count := int64(-1), int64(-1), 0
	memory := w.buckets[recommender.Memory]
	for i, bucket := range w.buckets[recommender.CPU] {
		if bucket|memory[i] == codec.BucketGap { // both are gaps
			continue
		}
		count++
		if first < 0 {
			first = int64(i)
		}
		if last < 0 || int64(i)-last > recommender.RunGap {
			d.profile.Runs++
		}
		last = int64(i)
	}
	if count == 0 {
		return
	}
	d.profile.First, d.profile.Last = usage.StepEnd(from+first, step), usage.StepEnd(from+last, step)
	d.profile.Gaps = int(last-first) + 1 - count
}

// gather returns the bucket of every step of the window, in reused memory. It also finds the highest value of the
// window, and collects the buckets that may represent one exact value (scale.exact). count decides about these after it
// has seen all steps.
func (r *resourceDigest) gather(s *series, used []uint16) []uint16 {
	size := int(s.last - s.first + 1)
	all := slices.Grow(used[:0], size)[:size]
	clear(all)
	s.eachBlock(s.first, s.last, func(at int64, b *codec.Block, pageMax float64) {
		from, to := max(0, s.first-at), min(codec.BlockSteps, s.last-at+1)
		copy(all[at+from-s.first:], b.Buckets[from:to])
		if pageOf(at)*pageSteps < s.first {
			// The highest value of the page may have left the window.
			pageMax = b.Max(int(from), int(to), pageMax)
		}
		if pageMax > r.scale.max { // False if the page has only gaps.
			r.scale.max = pageMax
		}
		for i := from; i < to && b.Exact(); i++ {
			if bucket := b.Buckets[i]; bucket != codec.BucketGap {
				r.scale.addExact(bucket, b.ValueOf(bucket))
			}
		}
	})
	for step := max(s.first, s.next); step <= min(s.last, s.next+int64(len(s.tail))-1); step++ {
		if v := s.opened(step); !math.IsNaN(v) {
			bucket := codec.BucketOf(v)
			all[step-s.first] = bucket
			r.scale.addExact(bucket, v)
			r.scale.max = max(r.scale.max, v)
		}
	}
	return all
}

// read computes the distributions by hour of the day and the profile of a resource from its buckets; from is the first
// step.
func (r *resourceDigest) read(from int64, step time.Duration, all []uint16, w *scratch, p *recommender.ResourceProfile) {
	isValue := func(bucket uint16) bool { return bucket != codec.BucketGap }
	first := slices.IndexFunc(all, isValue)
	if first < 0 {
		return
	}
	last := len(all) - 1
	for all[last] == codec.BucketGap {
		last--
	}
	p.First, p.Last = usage.StepEnd(from+int64(first), step), usage.StepEnd(from+int64(last), step)
	p.Peak = recommender.Usage(r.scale.max * r.scale.unit)
	r.count(from, step, all, w)
	r.sketch(w, p)
}

// count counts the steps of each bucket between the lowest and the highest one, for each hour of the day and in
// total.
func (r *resourceDigest) count(from int64, step time.Duration, all []uint16, w *scratch) {
	lowest, highest := uint16(codec.Buckets), uint16(0)
	for _, bucket := range all {
		if bucket != codec.BucketGap {
			lowest, highest = min(lowest, bucket), max(highest, bucket)
		}
	}
	w.clear(lowest, highest)
	eachHour(from, len(all), step, func(hour, start, end int) {
		counts := w.of(hour)
		for _, bucket := range all[start:end] {
			if bucket != codec.BucketGap {
				counts[bucket-lowest]++
			}
		}
	})
	total := w.of(sketches - 1)
	for hour := range sketches - 1 {
		for i, n := range w.of(hour) {
			total[i] += n
		}
	}
	// A bucket represents many values unless all of its steps are known to have the same one.
	r.scale.exact = slices.DeleteFunc(r.scale.exact, func(e exact) bool { return e.steps != total[e.bucket-lowest] })
}

// sketch builds the distributions of every hour of the day and of all hours from the counts.
func (r *resourceDigest) sketch(w *scratch, p *recommender.ResourceProfile) {
	w.cumulative = w.cumulative[:0]
	var ends [sketches]int
	for of := range ends {
		upTo := uint32(0)
		for i, n := range w.of(of) {
			if n > 0 {
				upTo += n
				w.cumulative = append(w.cumulative, cumulative{upTo, w.lowest + uint16(i)})
			}
		}
		ends[of] = len(w.cumulative)
	}
	counts, start := slices.Clone(w.cumulative), 0
	for hour := range r.hours {
		if end := ends[hour]; end > start {
			r.hours[hour] = sketch{counts[start:end], &r.scale}
			p.Hours[hour], start = &r.hours[hour], end
		}
	}
	r.overall = sketch{counts[start:], &r.scale}
	p.Overall, p.Points = &r.overall, r.overall.Count()
}

// eachHour visits the spans of steps that end in the same hour of the day, UTC.
func eachHour(from int64, count int, step time.Duration, visit func(hour, start, end int)) {
	const hour = 3_600_000
	each := step.Milliseconds()
	for start := 0; start < count; {
		at := (from + int64(start)) * each / hour
		end := int(min(((at+1)*hour+each-1)/each-from, int64(count)))
		visit(int(at%24), start, end)
		start = end
	}
}

// sketch is the distribution of some steps. Its values have an error of at most codec.MaxError. It is a
// recommender.Distribution, and a DDSketch (see package codec) that keeps all of its buckets.
type sketch struct {
	// counts by bucket, in ascending order.
	counts []cumulative
	scale  *scale
}

// cumulative is the number of steps with this bucket or a lower one. At least one step has this bucket.
type cumulative struct {
	upTo   uint32
	bucket uint16
}

// Count of the steps.
func (s *sketch) Count() int {
	if len(s.counts) == 0 {
		return 0
	}
	return int(s.counts[len(s.counts)-1].upTo)
}

// Quantile interpolates as recommender.Quantile does.
func (s *sketch) Quantile(q float64) recommender.Usage {
	if len(s.counts) == 0 {
		return 0
	}
	rank := min(max(q, 0), 1) * float64(s.Count()-1)
	lower := uint32(rank)
	at := sort.Search(len(s.counts), func(i int) bool { return s.counts[i].upTo > lower })
	below := s.scale.amount(s.counts[at].bucket)
	if s.counts[at].upTo > lower+1 || at == len(s.counts)-1 {
		return below
	}
	weight := recommender.Usage(rank - float64(lower))
	return below*(1-weight) + s.scale.amount(s.counts[at+1].bucket)*weight
}

// scale converts buckets to amounts of a resource. The hourly sketches and the overall one share it.
type scale struct {
	// unit converts a measured value to recommender.Usage: 1000 for CPU (cores to millicores), 1 for memory
	// (bytes).
	unit float64
	// max is the highest value of the window, as measured. It bounds all converted values, because the middle of the
	// highest bucket may be above it.
	max float64
	// exact lists buckets whose steps all have one known value. It has at most mostExact entries, because amount
	// searches all of them.
	exact []exact
}

// exact is a bucket that may represent a single value.
type exact struct {
	bucket uint16
	value  float64
	// steps that are known to have this value.
	steps uint32
}

// mostExact bounds the search for each bucket.
const mostExact = 64

// addExact records a step of a bucket with an exactly known value. Only steps with the bucket's first value count.
func (s *scale) addExact(bucket uint16, value float64) {
	for i := range s.exact {
		e := &s.exact[i]
		if e.bucket != bucket {
			continue
		}
		if e.value == value {
			e.steps++
		}
		return
	}
	if len(s.exact) < mostExact {
		s.exact = append(s.exact, exact{bucket, value, 1})
	}
}

// amount that a bucket represents.
func (s *scale) amount(bucket uint16) recommender.Usage {
	value := codec.Middle(bucket)
	if i := slices.IndexFunc(s.exact, func(e exact) bool { return e.bucket == bucket }); i >= 0 {
		value = s.exact[i].value
	}
	return recommender.Usage(min(value, s.max) * s.unit)
}
