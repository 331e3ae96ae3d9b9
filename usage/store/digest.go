package store

import (
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// digest is what a container's profile is made of. It is never changed once it is made.
type digest struct {
	profile recommender.Profile
	of      [2]resourceDigest
}

// resourceDigest holds one resource's values as marks.
type resourceDigest struct {
	overall sketch
	hours   [24]sketch
	scale   scale
}

// scale tells marks as amounts of a resource.
type scale struct {
	// unit is the amount of 1.
	unit float64
	// highest value: no mark is told as more.
	highest float64
	// exact values of marks that stand for only one.
	exact []exact
}

// exact is a mark that may stand for one value alone.
type exact struct {
	mark  uint16
	value float64
	// steps that are known to have this value.
	steps uint32
}

// sketch is the distribution of some steps: their values are off by MaxError at most.
type sketch struct {
	runs  []run
	scale *scale
}

// run is a mark that some steps have, in ascending order, and how many steps have it or a lower one.
type run struct {
	upTo uint32
	mark uint16
}

// mostExact bounds what is looked through for each mark.
const mostExact = 64

func newDigest(h *history, step time.Duration) *digest {
	w := workbenches.Get().(*workbench)
	defer workbenches.Put(w)
	d := &digest{}
	for i, m := range []*measure{&h.cpu, &h.memory} {
		of := &d.of[i]
		of.scale.unit = units[i]
		w.all[i] = of.gather(m, w.all[i])
		of.read(m.first, step, w.all[i], w, &d.profile.Of[i])
	}
	if cpu := &d.profile.Of[recommender.CPU]; cpu.Points > 0 && h.peak != nil {
		cpu.Peak = max(cpu.Peak, recommender.Usage(h.highest(h.cpu.first, h.cpu.last)*1000))
	}
	d.span(h.cpu.first, step, w)
	return d
}

// units are what the amounts of resources are told in, as they are measured: cores in millicores, bytes in bytes.
var units = [...]float64{recommender.CPU: 1000, recommender.Memory: 1}

// workbench is what digests are made on.
type workbench struct {
	// all marks of each resource's window.
	all [2][]uint16
	// counts say how often there is each of so many marks from the lowest on, by the hour of the day and then of all
	// hours.
	counts []uint32
	lowest uint16
	wide   int
	runs   []run
}

// sketches are one for each hour of the day and one for all hours.
const sketches = 24 + 1

// clear the counts for the marks from one to another.
func (w *workbench) clear(lowest, highest uint16) {
	w.lowest, w.wide = lowest, int(highest-lowest)+1
	w.counts = slices.Grow(w.counts[:0], sketches*w.wide)[:sketches*w.wide]
	clear(w.counts)
}

// of an hour of the day, or of all hours.
func (w *workbench) of(sketch int) []uint32 { return w.counts[sketch*w.wide : (sketch+1)*w.wide] }

var workbenches = sync.Pool{New: func() any { return &workbench{} }}

// span notes which steps were measured at all.
func (d *digest) span(from int64, step time.Duration, w *workbench) {
	first, last, count := int64(-1), int64(-1), 0
	memory := w.all[recommender.Memory]
	for i, mark := range w.all[recommender.CPU] {
		if mark|memory[i] == markGap {
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

// read all marks of a resource, from a step on: by hour of the day, and what its profile says.
func (r *resourceDigest) read(from int64, step time.Duration, all []uint16, w *workbench, p *recommender.ResourceProfile) {
	isMark := func(mark uint16) bool { return mark != markGap }
	first := slices.IndexFunc(all, isMark)
	if first < 0 {
		return
	}
	last := len(all) - 1
	for all[last] == markGap {
		last--
	}
	p.First, p.Last = usage.StepEnd(from+int64(first), step), usage.StepEnd(from+int64(last), step)
	p.Peak = recommender.Usage(r.scale.highest * r.scale.unit)
	r.count(from, step, all, w)
	r.sketch(w, p)
}

// count how often there is each mark from the lowest to the highest.
func (r *resourceDigest) count(from int64, step time.Duration, all []uint16, w *workbench) {
	lowest, highest := uint16(marks), uint16(0)
	for _, mark := range all {
		if mark != markGap {
			lowest, highest = min(lowest, mark), max(highest, mark)
		}
	}
	w.clear(lowest, highest)
	eachHour(from, len(all), step, func(hour, start, end int) {
		counts := w.of(hour)
		for _, mark := range all[start:end] {
			if mark != markGap {
				counts[mark-lowest]++
			}
		}
	})
	total := w.of(sketches - 1)
	for hour := range sketches - 1 {
		for i, n := range w.of(hour) {
			total[i] += n
		}
	}
	// A mark that not all of its steps are known to have for one value stands for many.
	r.scale.exact = slices.DeleteFunc(r.scale.exact, func(e exact) bool { return e.steps != total[e.mark-lowest] })
}

// sketch every hour of the day and all of them from what was counted.
func (r *resourceDigest) sketch(w *workbench, p *recommender.ResourceProfile) {
	w.runs = w.runs[:0]
	var ends [sketches]int
	for of := range ends {
		upTo := uint32(0)
		for i, n := range w.of(of) {
			if n > 0 {
				upTo += n
				w.runs = append(w.runs, run{upTo, w.lowest + uint16(i)})
			}
		}
		ends[of] = len(w.runs)
	}
	runs, start := slices.Clone(w.runs), 0
	for hour := range r.hours {
		if end := ends[hour]; end > start {
			r.hours[hour] = sketch{runs[start:end], &r.scale}
			p.Hours[hour], start = &r.hours[hour], end
		}
	}
	r.overall = sketch{runs[start:], &r.scale}
	p.Overall, p.Points = &r.overall, r.overall.Count()
}

// eachHour visits the runs of steps that end in the same hour of the day, UTC.
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

// gather the marks of the window into what has been used before, the highest value, and which marks stand for one
// value alone as far as can be told without the others.
func (r *resourceDigest) gather(m *measure, used []uint16) []uint16 {
	size := int(m.last - m.first + 1)
	all := slices.Grow(used[:0], size)[:size]
	clear(all)
	m.blocks(m.first, m.last, func(at int64, b *block, highest float64) {
		from, to := max(0, m.first-at), min(blockSteps, m.last-at+1)
		copy(all[at+from-m.first:], b.marks[from:to])
		if pageOf(at)*pageSteps < m.first {
			// The highest value of its page may be what the window has left.
			highest = b.top(int(from), int(to), highest)
		}
		if highest > r.scale.highest { // Not so where the page has only gaps.
			r.scale.highest = highest
		}
		for i := from; i < to && b.known > 0; i++ {
			if mark := b.marks[i]; mark != markGap {
				r.scale.know(mark, b.valueOf(mark))
			}
		}
	})
	for step := max(m.first, m.next); step <= min(m.last, m.next+int64(len(m.tail))-1); step++ {
		if v := m.opened(step); !math.IsNaN(v) {
			mark := markOf(v)
			all[step-m.first] = mark
			r.scale.know(mark, v)
			r.scale.highest = max(r.scale.highest, v)
		}
	}
	return all
}

// know that a step of a mark has an exact value. Only the steps of the first one are counted.
func (s *scale) know(mark uint16, value float64) {
	for i := range s.exact {
		e := &s.exact[i]
		if e.mark != mark {
			continue
		}
		if e.value == value {
			e.steps++
		}
		return
	}
	if len(s.exact) < mostExact {
		s.exact = append(s.exact, exact{mark, value, 1})
	}
}

// amount that a mark stands for.
func (s *scale) amount(mark uint16) recommender.Usage {
	value := middles[mark]
	for _, e := range s.exact {
		if e.mark == mark {
			value = e.value
			break
		}
	}
	return recommender.Usage(min(value, s.highest) * s.unit)
}

func (s *sketch) Count() int {
	if len(s.runs) == 0 {
		return 0
	}
	return int(s.runs[len(s.runs)-1].upTo)
}

// Quantile interpolates as recommender.Quantile does.
func (s *sketch) Quantile(q float64) recommender.Usage {
	if len(s.runs) == 0 {
		return 0
	}
	rank := min(max(q, 0), 1) * float64(s.Count()-1)
	lower := uint32(rank)
	at := sort.Search(len(s.runs), func(i int) bool { return s.runs[i].upTo > lower })
	below := s.scale.amount(s.runs[at].mark)
	if s.runs[at].upTo > lower+1 || at == len(s.runs)-1 {
		return below
	}
	weight := recommender.Usage(rank - float64(lower))
	return below*(1-weight) + s.scale.amount(s.runs[at+1].mark)*weight
}
