package adaptive

import (
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// Past is a container's history as the estimators have seen it so far. NewPast makes one.
type Past struct {
	settings recommender.Settings
	of       [2]*Estimator
	// estimates are those of the last decision.
	estimates [2]recommender.Estimate
	// lowered is when either resource was lowered last; zero: never.
	lowered time.Time
	// from is where the history begins that counts, last the newest step that was seen, and due the next whole hour at
	// which sizes are decided.
	from, last, due time.Time
}

// NewPast has seen nothing.
func NewPast(settings recommender.Settings) *Past { return &Past{settings: settings} }

// Of makes the estimates of a container from its history, oldest step first; nil with another strategy. It is a function
// of the steps and the settings alone, so that an operator that restarts, and a file of the same usage, give the same.
func Of(steps []recommender.StepUsage, settings recommender.Settings) *[2]recommender.Estimate {
	if !settings.Adapts() {
		return nil
	}
	estimates := NewPast(settings).Estimates(steps)
	return &estimates
}

// grains is into how many parts the history window is divided. Where the history begins moves by one of them, so that
// most estimates continue those of the hour before: with the built-in window by two days. The oldest values
// that a store keeps are less exact until a whole page of them has left (package usage/history); they are not looked at.
const grains = 7

// Estimates are what Of makes of the steps. Those that were seen by an earlier call are not looked at again, unless the
// beginning of the history has moved.
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

// see a step. Sizes are decided at each whole hour, and at once where either resource reaches a new height of its hour;
// they fall at whole hours only. What is decided stays decided, so that the result does not depend on when it is asked for.
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

// decideHour decides at the whole hour that is due.
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
