package recommender

import "math"

// trace collects the steps of a recommendation. All reasons are written into one buffer, which becomes one string that
// the steps share: ends[i] is the end of the reason of steps[i]. A nil trace collects nothing.
type trace struct {
	steps []Step
	ends  []int
	text  sentence
}

// newTrace reserves space for all steps of both resources, so that a recommendation makes a fixed number of
// allocations.
func newTrace() *trace {
	const most = len(Resources) * int(ruleCount)
	return &trace{
		steps: make([]Step, 0, most),
		ends:  make([]int, 0, most),
		text:  make(sentence, 0, 1024),
	}
}

func (t *trace) add(c *chain, r rule, before, after Amount) {
	if t == nil {
		return
	}
	t.text = r.why(c, t.text, before, after)
	t.ends = append(t.ends, len(t.text))
	t.steps = append(t.steps, Step{Resource: c.resource, Name: ruleNames[r], Before: before, After: after})
}

// amend adds to the reason of the last step.
func (t *trace) amend(text string) {
	if t == nil || len(t.ends) == 0 {
		return
	}
	t.text = t.text.text(text)
	t.ends[len(t.ends)-1] = len(t.text)
}

// finish returns the collected steps, each with its reason.
func (t *trace) finish() []Step {
	all, start := string(t.text), 0
	for i, end := range t.ends {
		t.steps[i].Reason = all[start:end]
		start = end
	}
	return t.steps
}

func whyPercentile(c *chain, s sentence, _, _ Amount) sentence {
	s = s.ordinal(c.settings.Percentile).text(" percentile of ").count(c.history.Points).text(" samples; ")
	if c.hour == noHour {
		return s.text("no hour of the day is higher")
	}
	return s.text("busiest hour ").count(c.hour / 10).count(c.hour % 10).text(":00 UTC")
}

func whyMargin(c *chain, s sentence, _, _ Amount) sentence {
	return s.number(c.settings.OverheadPercent, 2).text(" % headroom on ").usage(c.resource, c.usage)
}

func whyBurst(c *chain, s sentence, _, _ Amount) sentence {
	peak := c.history.Peak
	if c.settings.BurstSensitivity <= 0 {
		return s.text("switched off: burstSensitivity is 0")
	}
	if !c.bursty() {
		return s.text("no burst: peak ").usage(c.resource, peak).
			text(" is at most ").count(burstRatio).text(" × p95 ").p95(c)
	}
	return s.text("peak ").usage(c.resource, peak).text(" is ").number(c.ratio, 1).
		text(" × p95 ").p95(c).text(": × ").number(c.burstFactor(), 3).
		text(" (1 + ").number(c.settings.BurstSensitivity, 3).text(" × log2 of it)")
}

// p95 writes the 95th percentile, and the amount that replaces it in the ratio of an idle container.
func (s sentence) p95(c *chain) sentence {
	s = s.usage(c.resource, c.p95)
	if least := idleBelow[c.resource]; c.p95 < least {
		return s.text(" (counts as ").usage(c.resource, least).text(")")
	}
	return s
}

func whyConfidence(c *chain, s sentence, _, _ Amount) sentence {
	s = s.days(c.history.days(c.all.QueryStep)).text(" and ").count(c.history.Points).text(" samples: confidence ")
	if c.confidence >= 1 {
		return s.text("1, no extra margin")
	}
	return s.number(c.confidence, 3).text(", × ").number(caution(c.confidence), 7).text(" (1 + (1 − confidence)²)")
}

func whyFloor(c *chain, s sentence, before, after Amount) sentence {
	switch {
	case c.least() == 0:
		s = s.text("no minimum: no regression was observed")
	case after == before:
		s = s.text("not below ").floorSource(c)
	default:
		s = s.text("raised to ").floorSource(c)
	}
	switch {
	case c.killed == 0 || c.original.Limit == 0 || c.limitRaisesRequest():
		return s
	case c.settings.LimitsFollow:
		return s.text("; OOM kills raise the limit to at least ").amount(c.resource, c.killed).text(", but not the request")
	}
	return s.text("; OOM kills need a limit of ").amount(c.resource, c.killed).text(", but controlledValues keeps the limit ").
		amount(c.resource, c.original.Limit).text(": raise it in the pod template")
}

// floorSource names the highest of the floors.
func (s sentence) floorSource(c *chain) sentence {
	least := c.least()
	switch {
	case c.idle > c.learned.Amount:
		return s.text("the 99.9th percentile ").amount(CPU, c.idle).text(": idle most of the time, with bursts")
	case least == c.learned.Amount:
		return s.text("the minimum ").amount(c.resource, least).text(" learned from ").text(c.learned.Reason)
	case c.limitRaisesRequest() && c.killed > 0 && least == c.resource.Whole(c.killed):
		return s.text("the minimum ").amount(c.resource, least).text(" learned from oomkill: request and limit are equal")
	case c.limitRaisesRequest() && least == c.limitFloor:
		return s.text("the limit's minimum ").amount(c.resource, least).
			text(", 1.1 × peak ").usage(c.resource, c.history.Peak).text(": request and limit are equal")
	default:
		return s.text("the peak of the window, ").usage(c.resource, c.history.Peak)
	}
}

func whyBounds(c *chain, s sentence, before, after Amount) sentence {
	clamped := c.clamped(before)
	switch {
	case clamped < before:
		s = s.lowered(c, clamped)
	case clamped > before:
		s = s.raised(c, clamped)
	default:
		s = s.within(c)
	}
	return whyLimit(c, s.rounded(c.resource, clamped, after), after)
}

// rounded writes how the amount within the bounds was rounded.
func (s sentence) rounded(r Resource, clamped, after Amount) sentence {
	switch {
	case after > clamped:
		s = s.text("; rounded up to whole ")
	case after < clamped:
		s = s.text("; rounded down, to stay within the bound, to whole ")
	default:
		return s
	}
	if r.grain(clamped) == mebibyte {
		return s.text("MiB")
	}
	return s.text("KiB")
}

func (s sentence) lowered(c *chain, after Amount) sentence {
	switch after {
	case c.fixedLimit():
		s = s.text("lowered to the limit ").amount(c.resource, after).text(", which attune does not change")
	case highestRequest(c.original, c.ceiling):
		s = s.text("lowered to ").amount(c.resource, after).text(": the memory limit is not raised further without an OOM kill")
	default:
		s = s.text("lowered to maxAllowed ").amount(c.resource, after)
	}
	if c.least() > after {
		s = s.text(", below ").floorSource(c)
	}
	return s
}

func (s sentence) raised(c *chain, after Amount) sentence {
	switch after {
	case c.settings.MinAllowed:
		return s.text("raised to minAllowed ").amount(c.resource, after)
	case c.highest():
		return s.text("raised towards minAllowed, up to the maximum or the limit")
	default:
		return s.text("raised to ").amount(c.resource, after).text(", the smallest amount that attune sets")
	}
}

func (s sentence) within(c *chain) sentence {
	low, high := c.settings.MinAllowed, c.settings.MaxAllowed
	switch {
	case low > 0 && high > 0:
		return s.text("within ").amount(c.resource, low).text(" and ").amount(c.resource, high)
	case low > 0:
		return s.text("not below minAllowed ").amount(c.resource, low)
	case high > 0:
		return s.text("not above maxAllowed ").amount(c.resource, high)
	default:
		return s.text("no bounds are set")
	}
}

func (s *step) whySmall(target Amount) sentence {
	if target == s.live.Request {
		return s.why.text("already at ").amount(s.resource, target)
	}
	return s.distance(target).text(", less than the dead band of ").count(int(s.deadBand(target))).text(" %")
}

func (s *step) whyMoved(target, next Amount) sentence {
	why := s.distance(target)
	if next == target {
		return why.text(", within the cap of ").count(s.settings.MaxChangePercent).text(" % per resize")
	}
	return why.text(", capped at ").count(s.settings.MaxChangePercent).text(" % per resize: ").amount(s.resource, next)
}

// distance is the difference between the live request and the target in percent. It is truncated, so that a difference
// within the dead band never reads as 10 %.
func (s *step) distance(target Amount) sentence {
	live := s.live.Request
	percent := math.Trunc(float64(target-live)/float64(live)*1000) / 10
	why := s.why.amount(s.resource, live).text(" to ").amount(s.resource, target).text(" is ")
	if percent >= 0 {
		why = why.text("+")
	}
	return why.number(percent, 1).text(" %")
}

func (s *step) whyBeyond(size Amount) sentence {
	return s.why.text("; request and limit are equal and need ").amount(s.resource, size).
		limitFloorSource().text(", above maxAllowed ").amount(s.resource, s.settings.MaxAllowed)
}

func (s sentence) limitFloorSource() sentence {
	return s.text(", the minimum of the memory limit (1.1 × the peak, or learned from an OOM kill)")
}
