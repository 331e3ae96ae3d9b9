package store

import (
	"math"
	"math/bits"
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
	// vague marks stand for values that are not known exactly.
	vague [marks / 64]uint64
}

type exact struct {
	mark  uint16
	value float64
}

// sketch is the distribution of some steps: their values are off by MaxError at most.
type sketch struct {
	marks []uint16
	scale *scale
}

// mostExact bounds what is looked through for each mark.
const mostExact = 64

func newDigest(h *history, step time.Duration) *digest {
	d := &digest{}
	seen := make([]uint64, (h.cpu.last-h.cpu.first)/64+1)
	d.of[recommender.CPU].read(&h.cpu, 1000, step, seen, &d.profile.Of[recommender.CPU])
	d.of[recommender.Memory].read(&h.memory, 1, step, seen, &d.profile.Of[recommender.Memory])
	if cpu := &d.profile.Of[recommender.CPU]; cpu.Points > 0 && h.peak != nil {
		cpu.Peak = max(cpu.Peak, recommender.Usage(h.highest(h.cpu.first, h.cpu.last)*1000))
	}
	d.span(h.cpu.first, step, seen)
	return d
}

// span notes which steps were measured at all.
func (d *digest) span(from int64, step time.Duration, seen []uint64) {
	first, last, count := int64(-1), int64(-1), 0
	for i, word := range seen {
		if word == 0 {
			continue
		}
		count += bits.OnesCount64(word)
		if first < 0 {
			first = int64(i*64 + bits.TrailingZeros64(word))
		}
		last = int64(i*64 + 63 - bits.LeadingZeros64(word))
	}
	if count == 0 {
		return
	}
	d.profile.First, d.profile.Last = usage.StepEnd(from+first, step), usage.StepEnd(from+last, step)
	d.profile.Gaps = int(last-first) + 1 - count
}

// read one measure: its marks by hour of the day, and what its profile says.
func (r *resourceDigest) read(m *measure, unit float64, step time.Duration, seen []uint64, p *recommender.ResourceProfile) {
	r.scale.unit = unit
	all := r.gather(m)
	var counts [24]int
	first, last := int64(-1), int64(-1)
	for i, mark := range all {
		if mark == markGap {
			continue
		}
		n := int64(i)
		if first < 0 {
			first = n
		}
		last = n
		seen[n/64] |= 1 << (n % 64)
		counts[hourOf(m.first+n, step)]++
		p.Points++
	}
	if p.Points == 0 {
		return
	}
	p.First, p.Last = usage.StepEnd(m.first+first, step), usage.StepEnd(m.first+last, step)
	p.Peak = recommender.Usage(r.scale.highest * unit)
	r.sort(m.first, all, step, counts, p)
}

// sort the marks by the hour of the day.
func (r *resourceDigest) sort(from int64, all []uint16, step time.Duration, counts [24]int, p *recommender.ResourceProfile) {
	values, start := make([]uint16, p.Points), 0
	for hour, n := range counts {
		r.hours[hour] = sketch{values[start : start : start+n], &r.scale}
		if n > 0 {
			p.Hours[hour] = &r.hours[hour]
		}
		start += n
	}
	for i, mark := range all {
		if mark != markGap {
			of := &r.hours[hourOf(from+int64(i), step)].marks
			*of = append(*of, mark)
		}
	}
	r.overall = sketch{values, &r.scale}
	p.Overall = &r.overall
}

// hourOf is the hour of the day, UTC, in which a step ends.
func hourOf(n int64, step time.Duration) int { return int(n * step.Milliseconds() / 3_600_000 % 24) }

// gather the marks of the window, and which of them stand for one value alone.
func (r *resourceDigest) gather(m *measure) []uint16 {
	all := make([]uint16, m.last-m.first+1)
	m.blocks(m.first, m.last, func(at int64, b *block, highest float64) {
		for i := max(0, m.first-at); i < min(blockSteps, m.last-at+1); i++ {
			mark := b.marks[i]
			all[at+i-m.first] = mark
			r.scale.highest = max(r.scale.highest, b.peak(int(i), highest))
			if b.known == 0 {
				r.scale.vague[mark/64] |= 1 << (mark % 64)
			}
		}
		for i := range b.known {
			r.scale.know(b.exactM[i], b.exact[i])
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

// know an exact value of a mark.
func (s *scale) know(mark uint16, value float64) {
	for _, e := range s.exact {
		if e.mark != mark {
			continue
		}
		if e.value != value {
			s.vague[mark/64] |= 1 << (mark % 64)
		}
		return
	}
	if len(s.exact) == mostExact {
		s.vague[mark/64] |= 1 << (mark % 64)
		return
	}
	s.exact = append(s.exact, exact{mark, value})
}

// amount that a mark stands for.
func (s *scale) amount(mark uint16) recommender.Usage {
	value := middles[mark]
	if s.vague[mark/64]>>(mark%64)&1 == 0 {
		for _, e := range s.exact {
			if e.mark == mark {
				value = e.value
				break
			}
		}
	}
	return recommender.Usage(min(value, s.highest) * s.unit)
}

func (s *sketch) Count() int { return len(s.marks) }

// Quantile interpolates as recommender.Quantile does.
func (s *sketch) Quantile(q float64) recommender.Usage {
	if len(s.marks) == 0 {
		return 0
	}
	last := len(s.marks) - 1
	rank := min(max(q, 0), 1) * float64(last)
	lower := int(rank)
	below, above := s.ranked(lower, min(lower+1, last))
	if below == above {
		return s.scale.amount(below)
	}
	weight := recommender.Usage(rank - float64(lower))
	return s.scale.amount(below)*(1-weight) + s.scale.amount(above)*weight
}

// ranked are the marks of two neighbouring ranks. Marks are counted by their upper bits, and then by the
// lower ones among those of the rank: there is nothing to sort.
func (s *sketch) ranked(lower, upper int) (below, above uint16) {
	const low = 4
	var coarse [marks >> low]uint16
	wide := len(s.marks) > math.MaxUint16
	if wide {
		return s.rankedWide(lower), s.rankedWide(upper)
	}
	for _, mark := range s.marks {
		coarse[mark>>low]++
	}
	group, before := 0, 0
	for before+int(coarse[group]) <= lower {
		before += int(coarse[group])
		group++
	}
	var fine [1 << low]int
	next := uint16(marks - 1)
	for _, mark := range s.marks {
		switch of := int(mark >> low); {
		case of == group:
			fine[mark&(1<<low-1)]++
		case of > group:
			next = min(next, mark)
		}
	}
	at := 0
	for before+fine[at] <= lower {
		before += fine[at]
		at++
	}
	below = uint16(group<<low | at)
	if before+fine[at] > upper {
		return below, below
	}
	for at++; at < len(fine); at++ {
		if fine[at] > 0 {
			return below, uint16(group<<low | at)
		}
	}
	return below, next
}

// rankedWide is the mark of a rank among very many.
func (s *sketch) rankedWide(rank int) uint16 {
	var counts [marks]int
	for _, mark := range s.marks {
		counts[mark]++
	}
	mark := 0
	for before := counts[0]; before <= rank; before += counts[mark] {
		mark++
	}
	return uint16(mark)
}
