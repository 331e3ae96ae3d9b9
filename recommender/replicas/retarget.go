package replicas

import "math"

// Threshold is the usage of a pod at which an HPA keeps its number of replicas: a target of a request, both as their user
// wrote them.
type Threshold struct {
	// Target is the utilization in percent of the request; at least 1.
	Target int32
	// Request is the request of a pod that the HPA divides by, in millicores; above 0.
	Request float64
}

// LeastTarget and GreatestTarget are the bounds of a rewritten target.
const LeastTarget, GreatestTarget int32 = 30, 90

// Usage is the threshold in the unit of the request.
func (t Threshold) Usage() float64 { return float64(t.Target) / 100 * t.Request }

// At is the whole target that is nearest to the threshold if pods request this much on average: it is at most 0.5
// percentage points away. It is within LeastTarget and GreatestTarget, or as far from them as the original one. The mean
// is that of the pods whose usage the HPA counts. It has to be above 0.
func (t Threshold) At(request float64) int32 {
	if request == t.Request {
		return t.Target
	}
	least, greatest := float64(min(t.Target, LeastTarget)), float64(max(t.Target, GreatestTarget))
	return int32(max(least, min(math.Round(100*t.Usage()/request), greatest)))
}

// Range is that of the requests whose target is within LeastTarget and GreatestTarget. It includes the original request.
func (t Threshold) Range() (least, greatest float64) {
	usage := 100 * t.Usage()
	return min(t.Request, usage/float64(GreatestTarget)), max(t.Request, usage/float64(LeastTarget))
}

// RetargetMargin is for usage that the history does not show, as Margin is for Keep. It is smaller: beyond it, the HPA
// scales at a usage that is about 1 % from the one at which it would have scaled (docs/hpa-replicas.md).
const RetargetMargin = 0.05

// followed is the largest original target that is followed, one whole target after the other.
const followed = 1000

// Retarget returns the requests for which the HPA asks for the same number as with the original request and target, for
// every usage within every span, if its target follows with At. Of the scaler it takes the bounds and the tolerances. The
// requests include the original one, and every request between it and another one of them: so any mix of pods with
// requests from this range keeps the number too. They do not depend on the present requests. The range includes the
// margins: RetargetMargin where the target follows, and Margin where it is at its bound.
//
// HPA rounds the utilization down to whole percent, so each whole target has thresholds of its own: up to one percentage
// point away from the original ones. Where the history reaches them, no other request is proven.
func (s Scaler) Retarget(original Threshold, spans []Span) Kept {
	request := original.Request
	if original.Target < 1 || !(request > 0) || math.IsInf(request, 1) {
		return Kept{}
	}
	s.Target = original.Target
	kept := Kept{Least: request, Greatest: request, Points: len(spans)}
	if original.Target > followed {
		return kept
	}
	var seen moments
	for i := range spans {
		span := &spans[i]
		if span.Ready <= 0 {
			continue
		}
		if !span.valid() {
			return kept
		}
		f := Fleet{Current: s.clamp(span.Ready + span.Unready), Ready: span.Ready, Unready: span.Unready}
		asked := s.desired(&f, span.most(request))
		if other := s.desired(&f, span.fewest(request)); other != asked {
			kept.Below, kept.Above = span.greatest(other, asked), span.least(asked, other)
			return kept
		}
		seen.add(span, f, asked)
	}
	all := seen.all()
	few := make([]Span, len(all))
	for i := range all {
		few[i] = all[i].span
	}
	least, greatest := original.Range()
	if kept.Least, kept.Below = s.follow(original, all, least, +1); kept.Least <= least {
		s.Target = original.At(least)
		low := s.Keep(few, least).WithMargin(least, Margin)
		kept.Least, kept.Below = min(kept.Least, low.Least), low.Below
	}
	if kept.Greatest, kept.Above = s.follow(original, all, greatest, -1); kept.Greatest >= greatest {
		s.Target = original.At(greatest)
		high := s.Keep(few, greatest).WithMargin(greatest, Margin)
		kept.Greatest, kept.Above = max(kept.Greatest, high.Greatest), high.Above
	}
	return kept
}

// most and fewest are the bounds of the shares within the margin.
func (s *Span) most(request float64) int64 {
	return shares(s.Greatest*(1+RetargetMargin), s.Ready, request)
}

func (s *Span) fewest(request float64) int64 {
	return shares(s.Least/(1+RetargetMargin), s.Ready, request)
}

// follow returns the request farthest from the original one, and no farther than a bound, up to which all moments keep
// their number while the target follows in a direction. It also returns what would have happened beyond.
func (s Scaler) follow(original Threshold, all []moment, bound float64, step int32) (float64, Change) {
	const included = 1e-8 // see Kept
	usage, from := 100*original.Usage(), original.Request
	for s.Target = original.Target; s.Target > 0 && from != bound; s.Target += step {
		to := usage / (float64(s.Target) + float64(step)/2) // where At changes
		low, high := max(to, bound*(1-included)), from
		if step < 0 {
			low, high = from, min(to, bound)
		}
		for i := range all {
			m := &all[i]
			if more := s.desired(&m.fleet, m.span.most(low)); more != m.asked {
				return from, m.span.greatest(m.asked, more)
			}
			if fewer := s.desired(&m.fleet, m.span.fewest(high)); fewer != m.asked {
				return from, m.span.least(m.asked, fewer)
			}
		}
		if from = low; step < 0 {
			from = high
		}
		if step > 0 && low > to || step < 0 && high < to {
			break
		}
	}
	return from, Change{}
}

// moment is the usage of a fleet at which an HPA asks for a number.
type moment struct {
	span  Span
	fleet Fleet
	asked int32
}

// moments join spans of the same fleet and number: the formula never falls as usage rises, so that its bounds suffice. A
// history has few, in any order.
type moments struct {
	last [64]moment
	rest []moment // replaced in last
}

func (all *moments) add(span *Span, f Fleet, asked int32) {
	m := &all.last[slot(&f, asked)]
	switch {
	case m.fleet != f || m.asked != asked:
		if m.fleet.Ready > 0 {
			all.rest = append(all.rest, *m)
		}
		*m = moment{*span, f, asked}
		return
	case span.Least < m.span.Least:
		m.span.Least, m.span.LeastAt = span.Least, span.LeastAt
	}
	if span.Greatest > m.span.Greatest {
		m.span.Greatest, m.span.GreatestAt = span.Greatest, span.GreatestAt
	}
}

// all returns the moments. It reuses the memory.
func (all *moments) all() []moment {
	n := 0
	for i := range all.last {
		if all.last[i].fleet.Ready > 0 {
			all.last[n] = all.last[i]
			n++
		}
	}
	if len(all.rest) == 0 {
		return all.last[:n]
	}
	return append(all.rest, all.last[:n]...)
}
