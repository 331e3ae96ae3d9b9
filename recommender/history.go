package recommender

import (
	"math"
	"slices"
	"time"
)

// StepUsage is the usage of a container in one step of history. NaN, infinite and negative values count as not
// measured.
type StepUsage struct {
	// At is the time of the step.
	At time.Time
	// CPUCores is the mean CPU usage of the step in cores, MemoryBytes the memory usage in bytes.
	CPUCores, MemoryBytes float64
	// CPUPeak (cores) and MemoryPeak (bytes) are the maxima within the step; 0 if they are not known to be higher.
	CPUPeak, MemoryPeak float64
}

// NewProfile turns history into a profile. It keeps every value, so quantiles are exact. The steps may be in any order,
// at most one for each interval of the length step.
func NewProfile(steps []StepUsage, step time.Duration) Profile {
	profile := Outline(steps, step)
	for _, r := range Resources {
		profile.Of[r].distribute(steps, r)
	}
	return profile
}

// Outline is NewProfile without the distributions, for callers that do not use them.
func Outline(steps []StepUsage, step time.Duration) Profile {
	profile := Profile{Of: [2]ResourceProfile{outline(steps, CPU), outline(steps, Memory)}}
	measured := 0
	for i := range steps {
		if steps[i].measured(CPU) || steps[i].measured(Memory) {
			measured++
			profile.First, profile.Last = span(profile.First, profile.Last, steps[i].At)
		}
	}
	profile.Gaps = gaps(profile.Last.Sub(profile.First), step, measured)
	profile.Runs = runs(steps, step)
	return profile
}

// runs counts the stretches of time with data. Steps are rarely out of order, so they are sorted only if needed.
func runs(steps []StepUsage, step time.Duration) (n int) {
	if !slices.IsSortedFunc(steps, inOrder) {
		steps = slices.Clone(steps)
		slices.SortFunc(steps, inOrder)
	}
	var last time.Time
	for i := range steps {
		if !steps[i].measured(CPU) && !steps[i].measured(Memory) {
			continue
		}
		if n == 0 || steps[i].At.Sub(last) > RunGap*step {
			n++
		}
		last = steps[i].At
	}
	return n
}

func inOrder(a, b StepUsage) int { return a.At.Compare(b.At) }

// gaps counts the steps in a span of time that were not measured.
func gaps(span, step time.Duration, measured int) int {
	if step <= 0 || measured == 0 {
		return 0
	}
	room := int((span+step/2)/step) + 1
	return max(0, room-measured)
}

// span extends the time from first to last to include at; zero times are not set.
func span(first, last, at time.Time) (time.Time, time.Time) {
	if first.IsZero() || at.Before(first) {
		first = at
	}
	if last.IsZero() || at.After(last) {
		last = at
	}
	return first, last
}

// Used is the step's usage in millicores or bytes, for memory the highest; false if not measured.
func (s *StepUsage) Used(r Resource) (Usage, bool) {
	used, ok := s.value(r)
	if ok && r == Memory {
		used = max(used, s.peak(r))
	}
	return used, ok
}

func (s *StepUsage) measured(r Resource) bool {
	_, ok := s.value(r)
	return ok
}

// value is the step's usage in millicores or bytes; false if not measured.
func (s *StepUsage) value(r Resource) (Usage, bool) {
	if r == Memory {
		return valid(s.MemoryBytes)
	}
	return valid(s.CPUCores * 1000)
}

// peak is the step's maximum, or 0.
func (s *StepUsage) peak(r Resource) Usage {
	peak, ok := valid(s.CPUPeak * 1000)
	if r == Memory {
		peak, ok = valid(s.MemoryPeak)
	}
	if !ok {
		return 0
	}
	return peak
}

func valid(x float64) (Usage, bool) { return Usage(x), x >= 0 && !math.IsInf(x, 1) }

// outline is the profile of one resource without its distributions.
func outline(steps []StepUsage, r Resource) (p ResourceProfile) {
	for i := range steps {
		if value, ok := steps[i].value(r); ok {
			p.Points++
			p.Peak = max(p.Peak, value, steps[i].peak(r))
			p.First, p.Last = span(p.First, p.Last, steps[i].At)
		}
	}
	return p
}

// distribute adds the distributions. It counts first, so that the values of all hours fit into one array.
func (p *ResourceProfile) distribute(steps []StepUsage, r Resource) {
	if p.Points == 0 {
		return
	}
	var counts [24]int
	for i := range steps {
		if steps[i].measured(r) {
			counts[steps[i].At.UTC().Hour()]++
		}
	}
	values, hours, start := make(sorted, p.Points), [24]sorted{}, 0
	for hour, n := range counts {
		hours[hour] = values[start : start : start+n]
		start += n
	}
	for i := range steps {
		if value, ok := steps[i].value(r); ok {
			hour := steps[i].At.UTC().Hour()
			hours[hour] = append(hours[hour], value)
		}
	}
	overall := slices.Clone(values)
	slices.Sort(overall)
	p.Overall = &overall
	for hour := range hours {
		if slices.Sort(hours[hour]); len(hours[hour]) > 0 {
			p.Hours[hour] = &hours[hour]
		}
	}
}

// sorted is the exact Distribution: every value, in ascending order.
type sorted []Usage

func (s sorted) Count() int { return len(s) }

func (s sorted) Quantile(q float64) Usage { return Quantile(s, q) }

// Quantile returns the q-quantile (0 to 1) of values in ascending order. It interpolates between the two values around
// rank q × (n − 1), like PromQL's quantile_over_time; 0 without values.
func Quantile(ascending []Usage, q float64) Usage {
	if len(ascending) == 0 {
		return 0
	}
	last := len(ascending) - 1
	rank := min(max(q, 0), 1) * float64(last)
	lower := int(rank)
	upper := min(lower+1, last)
	weight := Usage(rank - float64(lower))
	return ascending[lower]*(1-weight) + ascending[upper]*weight
}

const (
	day = 24 * time.Hour
	// fullDays is how many days of history give full confidence.
	fullDays = 7
)

// confidence in a history, from 0 to 1: clamp(min(days, √(steps/24)) / min(7, history window in days)). The days run
// from the beginning of the first step to the end of the last one, so that a window without gaps gives exactly 1. The
// VerticalPodAutoscaler measures confidence in a similar way, by days and number of samples.
func (p *ResourceProfile) confidence(s *Settings) float64 {
	if p.Points == 0 {
		return 0
	}
	needed := fullDays * 1.0
	if s.HistoryWindow > 0 {
		needed = min(needed, inDays(s.HistoryWindow))
	}
	evidence := min(p.days(s.QueryStep), math.Sqrt(float64(p.Points)/24))
	return min(max(evidence/needed, 0), 1)
}

// MostConfidence is the confidence of a full history window without gaps, from 0 to 1. It is below 1 if the window or
// the number of its steps is too small. Without a query step it is 1.
func (s *Settings) MostConfidence() float64 {
	if s.QueryStep <= 0 {
		return 1
	}
	end := time.Time{}.Add(s.HistoryWindow)
	whole := ResourceProfile{Points: int(s.HistoryWindow / s.QueryStep), Last: end.Add(-s.QueryStep)}
	return whole.confidence(s)
}

func (p *ResourceProfile) days(step time.Duration) float64 { return inDays(p.Last.Sub(p.First) + step) }

func inDays(d time.Duration) float64 { return float64(d) / float64(day) }

// caution is the factor that compensates for low confidence c, from 2 at c = 0 to 1 at c = 1: 1 + m·(1 − c)^e
// with m = 1 and e = 2.
func caution(confidence float64) float64 {
	missing := 1 - confidence
	return 1 + missing*missing
}
