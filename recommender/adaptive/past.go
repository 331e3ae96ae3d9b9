package adaptive

import (
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// Past is a container's history as seen by the estimators so far. Use NewPast.
type Past struct {
	settings recommender.Settings
	of       [2]*Estimator
	// estimates of the last decision.
	estimates [2]recommender.Estimate
	// lowered is when either resource was last lowered; zero: never.
	lowered time.Time
	// from is the beginning of the counted history, last the newest step seen, and due the next whole hour for a
	// decision.
	from, last, due time.Time
}

// NewPast returns a Past without history.
func NewPast(settings recommender.Settings) *Past { return &Past{settings: settings} }

// Of computes the estimates of a container from its history, oldest step first; nil for another strategy. It depends
// only on the steps and the settings. So a restarted operator, and a file with the same usage, give the same result.
func Of(steps []recommender.StepUsage, settings recommender.Settings) *[2]recommender.Estimate {
	if !settings.Adapts() {
		return nil
	}
	estimates := NewPast(settings).Estimates(steps)
	return &estimates
}

// grains is the number of parts of the history window. The beginning of the history moves by whole parts, so that most
// estimates continue the previous ones. With the built-in window it moves by two days. A store's oldest values are less
// exact until a whole page of them has left (package usage/history); they are not used.
const grains = 7

// Estimates returns the result of Of for the steps. Steps seen by an earlier call are skipped, unless the beginning of
// the history has moved.
func (p *Past) Estimates(steps []recommender.StepUsage) [2]recommender.Estimate {
	if len(steps) == 0 {
		return [2]recommender.Estimate{}
	}
	grain := p.settings.HistoryWindow / grains
	if from := steps[len(steps)-1].At.Add(grain - p.settings.HistoryWindow).Truncate(grain); p.of[0] == nil || !from.Equal(p.from) {
		*p = Past{settings: p.settings, from: from, last: from.Add(-1)}
		for _, r := range recommender.Resources {
			p.of[r] = New(r, p.settings.Adaptive)
		}
	}
	unseen, _ := slices.BinarySearchFunc(steps, p.last, func(s recommender.StepUsage, seen time.Time) int {
		if s.At.After(seen) {
			return 1
		}
		return -1
	})
	for i := range steps[unseen:] {
		p.see(&steps[unseen+i])
	}
	return p.estimates
}

// see a step. Sizes are decided at each whole hour, and at once if either resource reaches a new maximum of its hour;
// they fall only at whole hours. Decisions are final, so the result does not depend on the time of the call.
func (p *Past) see(step *recommender.StepUsage) {
	if p.due.IsZero() {
		p.due = step.At.Add(time.Hour - 1).Truncate(time.Hour)
	}
	for p.due.Before(step.At) {
		p.decideHour()
	}
	higher := false
	for _, r := range recommender.Resources {
		if used, ok := step.Used(r); ok {
			higher = p.of[r].Observe(step.At, float64(used)) || higher
		}
	}
	p.last = step.At
	switch {
	case p.due.Equal(step.At):
		p.decideHour()
	case higher:
		p.decide(step.At, false)
	}
}

// decideHour decides at the due whole hour.
func (p *Past) decideHour() {
	p.decide(p.due, p.lowered.IsZero() || p.due.Sub(p.lowered) >= betweenFalls)
	p.due = p.due.Add(time.Hour)
}

// decide the sizes at a time.
func (p *Past) decide(at time.Time, mayFall bool) {
	fell := false
	for r, of := range p.of {
		had := of.inForce
		p.estimates[r] = of.Decide(at, mayFall)
		fell = fell || of.inForce < had
	}
	if fell {
		p.lowered = at
	}
}
