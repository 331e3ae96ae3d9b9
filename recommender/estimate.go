package recommender

import "time"

// AdaptiveSettings are the settings of the strategy Adaptive. The zero value means another strategy.
type AdaptiveSettings struct {
	// Risk: 1 is Medium, a higher value accepts more shortage to reserve less; 0 means another strategy.
	Risk float64
	// Cadence is the minimum time between changes of a size; a shorter trough is not followed.
	Cadence time.Duration
}

// Adapts reports whether targets come from the strategy Adaptive.
func (s *Settings) Adapts() bool { return s.Adaptive.Risk > 0 }

// Estimate is the estimate of one resource from the container's own past under the strategy Adaptive; package adaptive
// makes it. The zero value means no estimate.
type Estimate struct {
	// Amount to reserve, in millicores or bytes.
	Amount Usage
	// Wanted is the amount of the current choice. Amount differs from it while a small raise or a fall waits.
	Wanted Usage
	// Rule is the chosen statistic of the past, such as "max of 24 h", Value its value and Margin the factor on it.
	Rule   string
	Value  Usage
	Margin float64
	// Short is the expected part of the time (CPU) or of the hours (memory) with usage above Wanted.
	Short float64
	// Hours of this container's past that were counted, with lower weights for older ones.
	Hours float64
}

// adapted is the first rule of the strategy Adaptive: the estimate, instead of percentile, margin, burst and
// confidence.
func adapted(c *chain, _ Amount) Amount { return c.estimate.Amount.RoundUp() }

func whyAdapted(c *chain, s sentence, _, _ Amount) sentence {
	e := &c.estimate
	wanted, amount := e.Wanted.RoundUp(), e.Amount.RoundUp()
	s = s.text(e.Rule).text(" ").usage(c.resource, e.Value).text(" × ").number(e.Margin, 2).text(" = ").amount(c.resource, wanted)
	s = s.text("; usage exceeds that ")
	if c.resource == Memory {
		s = s.text("in ").share(e.Short).text(" of hours")
	} else {
		s = s.share(e.Short).text(" of the time")
	}
	s = s.text(", estimated from ").number(e.Hours, 0).text(" h of this container and a prior from typical containers")
	switch {
	case amount > wanted:
		return s.text("; stays at ").amount(c.resource, amount).text(": the estimate falls only after some hours, by more than 10 %, and at most twice a day")
	case amount < wanted:
		return s.text("; stays at ").amount(c.resource, amount).text(", which is only slightly lower")
	}
	return s
}

// share writes a part of a whole, in percent.
func (s sentence) share(part float64) sentence {
	switch percent := 100 * part; {
	case percent < 0.01:
		return s.text("less than 0.01 %")
	case percent < 1:
		return s.number(percent, 2).text(" %")
	default:
		return s.number(percent, 1).text(" %")
	}
}
