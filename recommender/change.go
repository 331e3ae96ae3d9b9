package recommender

import "cmp"

// deadBandPercent is the dead band in percent of the live request: a smaller change is not worth a resize.
const deadBandPercent = 10

// NextStep is the rule change: one resize step of a live container towards its target. A difference of less than 10 %
// of the live request is held. A larger one is capped at MaxChangePercent of it, not rejected, so that repeated steps
// arrive within the dead band around the target and stay there. Lowering memory needs AllowDecrease. A live request of
// zero is not set, and takes the target at once.
//
// A new amount is whole; an unchanged amount stays exact. Limits follow the next request by the ratio of the original
// resources, if the settings say so and the container has a limit. No limit is added or removed. A request never
// exceeds its limit. Neither hold nor cap keeps a memory limit below MemoryLimitFloor, with or without a target. So
// compare Next with Live to see whether there is a change: a held resource may still get a higher limit.
func NextStep(m Move) Change {
	change := Change{Next: m.Live}
	if m.Guaranteed {
		m.Settings.Of[CPU].Limits = LimitRule{}
	}
	for _, resource := range Resources {
		s := newStep(&m, resource)
		if s.settings.Uncontrolled != "" {
			continue
		}
		if s.target == 0 && s.live.Limit >= s.limitFloor {
			continue
		}
		s.next.Request = s.request()
		if s.pinned() {
			s.pin()
		} else {
			s.next.Limit = s.limit()
		}
		if s.next != s.live {
			change.Next[resource] = s.next
		}
		why := string(s.why)
		change.Steps = append(change.Steps, Step{
			Resource: resource, Name: "change", Before: cmp.Or(s.target, s.live.Request), After: s.next.Request, Reason: why,
		})
		// Without a target, the caller has already reported the hold.
		if s.hold != "" && s.target > 0 {
			change.Holds = append(change.Holds, Hold{Resource: resource, Reason: s.hold, Message: why})
		}
	}
	return change
}

// step computes one resource's step towards its target. newStep fills the first group of fields, NextStep the second.
type step struct {
	resource       Resource
	settings       *ResourceSettings
	target         Amount
	live, original Allocation
	// largest bounds raises of a limit; 0: not known.
	largest Amount
	// raisedPast is the dead band of a raise, in percent of the live request.
	raisedPast Amount
	// due: a raise is due (Move.Due).
	due bool
	// limitFloor is the minimum of a memory limit, in bytes; 0 for CPU and for limits that do not change. keptLimit is
	// the CPU limit that a decrease leaves (Move.CPULimitFloor).
	limitFloor, keptLimit Amount
	// ceiling bounds raises of a memory limit, in bytes; 0: no ceiling.
	ceiling Amount

	// next, hold and why are the result; hold is empty if the resource is not held.
	next Allocation
	hold Reason
	why  sentence
}

func newStep(m *Move, resource Resource) *step {
	s := &step{
		resource: resource,
		settings: &m.Settings.Of[resource],
		target:   resource.WholeWithin(m.Target[resource].Request, m.Settings.Of[resource].MinAllowed, m.Settings.Of[resource].MaxAllowed),
		live:     m.Live[resource].defaulted(),
		original: m.Original[resource].defaulted(),

		raisedPast: m.Settings.RaisedPast(resource),
		due:        m.Due[resource],
		why:        make(sentence, 0, 128),
	}
	s.next = s.live
	if largest := m.Largest[resource]; largest > 0 {
		s.largest = max(largest, s.original.Limit, s.live.Limit) // it lowers nothing
	}
	if resource == CPU {
		s.keptLimit = m.CPULimitFloor
	}
	if resource == Memory && s.limitFollows() {
		floor := resource.Whole(m.MemoryLimitFloor)
		if !s.pinned() { // pin holds what is above maxAllowed
			floor = max(s.settings.RaisedWithin(floor, m.OOMFloor, s.original), min(floor, s.live.Limit))
		}
		s.limitFloor = Brake(floor, s.largest)
		// Target and floor are within the ceiling of the recommendation, which knows more OOM kills.
		s.ceiling = max(cmp.Or(m.Target[resource].Limit, MemoryCeiling(s.original, Floor{}, s.settings.MinAllowed)), s.limitFloor, s.live.Limit)
	}
	return s
}

// limitFollows reports whether the container has a limit that the settings allow to change.
func (s *step) limitFollows() bool {
	return s.settings.LimitsFollow && s.live.Limit > 0 && s.original.Limit > 0
}

// pinned reports whether request and limit are equal and must stay equal.
func (s *step) pinned() bool {
	return s.limitFollows() && s.original.pinned() && s.live.pinned() && s.settings.Limits == (LimitRule{})
}

// request is the next request, within the limit. The order of the cases is the order of precedence: no target, no live
// request, dead band, memory that must not fall, and only then a capped step.
func (s *step) request() Amount {
	target := s.target
	if s.live.Limit > 0 && !s.limitFollows() && target > s.live.Limit {
		target = s.resource.WholeWithin(s.live.Limit, s.live.Request, s.live.Limit)
		s.why = s.why.text("the limit ").amount(s.resource, s.live.Limit).text(" does not change and caps the request; ")
	}
	live := s.live.Request
	switch {
	case target == 0:
		return s.keep("", s.why.text("no target"))
	case live == 0:
		s.why = s.why.text("not set so far: the target applies at once")
		return target
	case within(live, target, s.deadBand(target)):
		return s.keep(SmallChange, s.whySmall(target))
	case s.resource == Memory && target < live && !s.settings.AllowDecrease:
		return s.keep(DecreaseNotAllowed, s.distance(target).text("; memory is lowered only with allowDecrease"))
	default:
		return s.capped(target)
	}
}

// keep holds the live request for a reason.
func (s *step) keep(reason Reason, why sentence) Amount {
	s.hold, s.why = reason, why
	return s.live.Request
}

// WithinDeadBand reports whether the target differs from the live amount by less than 10 % of it, which is not worth a
// resize. A live amount of zero is not set and has no dead band.
func WithinDeadBand(live, target Amount) bool { return within(live, target, deadBandPercent) }

// within reports whether the target differs from the live amount by less than this percentage of it.
func within(live, target, percent Amount) bool {
	if live <= 0 {
		return false
	}
	// d < live/10 in integers is d ≤ ⌊(live − 1)/10⌋.
	return max(target-live, live-target) <= (live-1).times(percent, 100)
}

// RaisedPast is the dead band of raises, in percent of the live request. It is below 10 % for the strategy Adaptive,
// because its margins are often not larger than that.
func (s *Settings) RaisedPast(r Resource) Amount {
	if s.Adapts() {
		return [...]Amount{CPU: 8, Memory: 3}[r]
	}
	return deadBandPercent
}

// deadBand on the way to a target, in percent of the live request.
func (s *step) deadBand(target Amount) Amount {
	if target > s.live.Request {
		return s.raisedPast
	}
	return deadBandPercent
}

// capped is the target, or as far towards it as one step may go (MaxChangePercent of the live request), in whole
// amounts and always at least one unit. Without that minimum a small request would never move. A raise that is due has
// no cap.
func (s *step) capped(target Amount) Amount {
	live := s.live.Request
	if s.due && target > live {
		s.why = s.distance(target).text(", at once: the container uses more than its request")
		return target
	}
	most := max(1, live.times(Amount(max(s.settings.MaxChangePercent, 0)), 100))
	next := s.resource.nearer(live, min(max(target, live-most), live+most), target)
	s.why = s.whyMoved(target, next)
	return next
}

// nearer is the end of a step as a whole amount, rounded towards live so that the cap is kept. If that leaves no step,
// because the cap is below the grain, memory is rounded to whole KiB or stays exact.
func (r Resource) nearer(live, end, target Amount) Amount {
	if end == target {
		return end
	}
	for _, g := range [...]Amount{r.grain(end), min(r.grain(end), kibibyte)} {
		if below := end - end%g; below > live {
			return below
		}
		if above := (end + g - 1) / g * g; above < live {
			return above
		}
	}
	return end
}

// limit is the limit for the next request.
func (s *step) limit() Amount {
	if !s.limitFollows() {
		return s.live.Limit
	}
	if s.settings.Limits != (LimitRule{}) {
		return s.ruled()
	}
	limit := max(Brake(Brake(LimitFor(s.resource, s.original, s.next.Request, s.keptLimit), s.largest), s.ceiling), s.next.Request)
	limit = s.resource.CapLimit(s.original, Allocation{Request: s.next.Request, Limit: limit}, s.settings.limitMost(s.limitFloor)).Limit
	limit = max(limit, min(s.keptLimit, s.live.Limit))
	if s.resource == CPU && s.target > s.next.Request { // as in ruled
		end := Allocation{Request: s.target, Limit: LimitFor(CPU, s.original, s.target, s.keptLimit)}
		limit = max(limit, min(s.live.Limit, CPU.CapLimit(s.original, end, s.settings.MaxAllowed).Limit))
	}
	if s.next.Request == s.live.Request {
		limit = s.caughtUp(max(limit, s.limitFloor))
	}
	if s.resource == Memory && !s.settings.AllowDecrease {
		limit = max(limit, s.live.Limit)
	}
	if limit < s.limitFloor {
		s.why = s.why.text("; the limit is raised to ").amount(s.resource, s.limitFloor).limitFloorSource()
		limit = s.limitFloor
	}
	return limit
}

// caughtUp is the next limit of a request that stays within its dead band. If a memory limit could not be lowered with
// its request, it is lowered here later, by capped steps of its own. A CPU limit that a rule sets follows a changed rule
// in both directions.
func (s *step) caughtUp(limit Amount) Amount {
	live := Allocation{Request: s.live.Limit}
	band := step{resource: s.resource, live: live, settings: s.settings}
	if s.hold != SmallChange || limit > s.live.Limit && !s.settings.Limits.Sets() || WithinDeadBand(s.live.Limit, limit) {
		return s.live.Limit
	}
	next := band.capped(limit)
	s.hold = ""
	s.why = s.why.text("; the limit follows it from ").amount(s.resource, s.live.Limit).text(" to ").amount(s.resource, next)
	return next
}

// pin gives request and limit one value. If the limit's floor would force both above the policy's maximum, the
// container stays unchanged (FloorAboveMaximum).
func (s *step) pin() {
	size := max(s.next.Request, s.limitFloor)
	if size > s.next.Request {
		if highest := s.settings.MaxAllowed; highest > 0 && size > highest {
			size = s.keep(FloorAboveMaximum, s.whyBeyond(size))
		} else {
			s.hold = ""
			s.why = s.why.text("; request and limit are equal and are raised to ").amount(s.resource, size).limitFloorSource()
		}
	}
	s.next = Allocation{Request: size, Limit: size}
}

// limitHeadroom is the minimum ratio of a memory limit to the peak of the history.
const limitHeadroom = 1.1

// WithHeadroom returns limitHeadroom times a memory usage, in bytes.
func WithHeadroom(usage Amount) Amount { return usage + usage/10 }

// WithoutHeadroom returns the memory usage of which a limit is limitHeadroom times, in bytes.
func WithoutHeadroom(limit Amount) Amount { return limit * 10 / 11 }

// defaulted returns the allocation with its limit as the request if it has no request, as the API server does.
func (a Allocation) defaulted() Allocation {
	a.Request = cmp.Or(a.Request, a.Limit)
	return a
}

// pinned reports whether request and limit are equal. They must then stay equal, because the pod's QoS class may depend
// on it.
func (a Allocation) pinned() bool { return a.Limit > 0 && a.Request == a.Limit }

// LimitFor is the limit for a request. It keeps the ratio of limit to request of the original resources, and is never
// below the request. A ratio above 2 may come from a placeholder request, so by the ratio no limit exceeds the greatest
// of the original limit, twice the request, and floor. It is rounded down to a whole amount, so that the maximum ratio
// of a LimitRange is kept, but a request that is not lowered lowers no limit. The ratio comes from the original, not
// from the live allocation, because a ratio that is read back drifts with every rounding. A memory limit is at least
// floor (bytes). A CPU limit is not lowered below floor (millicores), but never raised by it. Without an original limit
// the result is 0, no limit.
func LimitFor(r Resource, original Allocation, request, floor Amount) Amount {
	if original.Limit == 0 {
		return 0
	}
	limit := request
	if original = original.defaulted(); !original.pinned() {
		most := max(original.Limit, request.times(2, 1), floor)
		limit = max(request, r.above(request, min(most, request.times(original.Limit, original.Request))))
		if request >= original.Request {
			limit = max(limit, original.Limit)
		} else if r == CPU {
			limit = max(limit, min(floor, original.Limit))
		}
	}
	if r == Memory {
		limit = max(limit, r.Whole(floor))
	}
	return limit
}

// above is a limit rounded down to a whole amount. If that would make it equal to its request, which may change the QoS
// class, memory is rounded to whole KiB, whatever its size.
func (r Resource) above(request, limit Amount) Amount {
	if whole := r.WholeDown(limit); whole > request || r == CPU {
		return whole
	}
	return limit - limit%kibibyte
}

// memoryLimitFloor is the greater of 1.1 times the peak of the window and the learned floor, as a whole amount. No
// memory limit may be below it.
func memoryLimitFloor(peak Usage, learned Amount) Amount {
	return Memory.Whole(max((peak * limitHeadroom).RoundUp(), learned))
}
