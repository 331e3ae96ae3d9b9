package history

import (
	"math"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

// implausible counts the steps of the last day with dropped samples, indexed by resource.
type implausible [2]struct {
	// first and last bound the steps that were counted: a step that is read again counts once. last is 0 before the
	// first answer.
	first, last int64
	// hours has the counts by hour since the epoch, modulo 24.
	hours [24]hourly
	// highest is the highest dropped sample of the newest answer with dropped samples above 0. bound is what it
	// exceeded. Both are in cores or bytes.
	highest, bound float64
	why            usage.Drop
}

// hourly counts the steps of one hour since the epoch.
type hourly struct {
	hour int32
	// zeros are those of the steps with samples of 0 only, limits those with samples above the limit.
	steps, zeros, limits int32
}

// bounds says what samples dropped for a reason exceed; others exceed the largest node.
var bounds = map[usage.Drop]recommender.Bound{usage.DropNode: recommender.OfNode, usage.DropLimit: recommender.OfLimit}

// countImplausible counts the dropped samples of an answer and reports whether the counts changed.
func (h *history) countImplausible(a *answer, m *merge) (different bool) {
	if a.implausible == nil {
		return false
	}
	for _, r := range recommender.Resources {
		values := a.implausible[r].values
		if len(values) == 0 {
			continue
		}
		if h.implausible == nil {
			h.implausible = &implausible{}
		}
		of, highest := &h.implausible[r], math.NaN()
		for i, value := range values {
			step := m.first + int64(i)
			if math.IsNaN(value) {
				continue
			}
			highest = recommender.Highest(highest, value)
			if step >= of.first && step <= of.last {
				continue
			}
			hour := int32(step * m.pool.settings.QueryStep.Milliseconds() / time.Hour.Milliseconds())
			at := &of.hours[hour%24]
			if at.hour > hour {
				continue // more than a day ago
			}
			if at.hour < hour {
				*at = hourly{hour: hour}
			}
			at.steps++
			switch {
			case value == 0:
				at.zeros++
			case a.implausible[r].why == usage.DropLimit:
				at.limits++
			}
			different = true
		}
		end := m.first + int64(len(values)) - 1
		if of.last == 0 {
			of.first, of.last = m.first, end
		}
		of.first, of.last = min(of.first, m.first), max(of.last, end)
		if highest > 0 { // zeros do not hide earlier samples
			of.highest, of.bound, of.why = highest, a.implausible[r].bound, a.implausible[r].why
		}
	}
	return different
}

// Implausible returns how many steps of a container had samples dropped as implausible in the 24 hours before now,
// indexed by resource (usage.Drop.Impossible). The zero value means no dropped samples.
func (s *Store) Implausible(key Key, now time.Time) (out [2]recommender.Implausible) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	pool, history := s.find(key)
	if history == nil || history.implausible == nil {
		return out
	}
	last := usage.StepOf(now, pool.settings.QueryStep)
	// Dropped and measured steps are counted over the same whole hours; hours that ended a day ago are excluded.
	oldest := now.Add(-24*time.Hour).Unix() / 3600
	first := usage.StepHolding(time.Unix((oldest+1)*3600, 0), pool.settings.QueryStep)
	for _, r := range recommender.Resources {
		of := &history.implausible[r]
		counted := recommender.Implausible{Highest: r.Measured(of.highest), Most: r.Measured(of.bound), Bound: bounds[of.why]}
		for _, at := range of.hours {
			if int64(at.hour) > oldest {
				counted.Dropped += int(at.steps)
				counted.Zeros += int(at.zeros)
				counted.AboveLimit += int(at.limits)
			}
		}
		if counted.Dropped == 0 {
			continue
		}
		values := [2]*series{recommender.CPU: &history.cpu, recommender.Memory: &history.memory}[r].values(first, last)
		counted.Of = counted.Dropped + measured(values)
		out[r] = counted
	}
	return out
}
