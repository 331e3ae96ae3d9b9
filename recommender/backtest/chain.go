package backtest

import (
	"fmt"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/adaptive"
)

// Shipped is this project's strategy Workload or Adaptive, as the settings say: the shipped rules on the history of the
// container, with the floors learned from its OOM kills. The settings are policy settings.
func Shipped(name string, settings recommender.Settings) Strategy {
	s := Strategy{Name: name, New: func(s Series) Algorithm { return newChain(s, settings) }}
	for _, r := range recommender.Resources {
		s.RaisedPast[r] = float64(settings.RaisedPast(r)) / 100
	}
	return s
}

// Adaptive is Shipped with the strategy Adaptive at a risk.
func Adaptive(risk float64, settings recommender.Settings) Strategy {
	settings.Adaptive.Risk = risk
	return Shipped(fmt.Sprintf("adaptive-%g", risk), settings)
}

// Alone returns the settings for scoring each container by itself: one step of data is enough, and memory may be
// lowered.
func Alone(settings recommender.Settings) recommender.Settings {
	settings.MinimumDataPoints = 1
	for r := range settings.Of {
		settings.Of[r].AllowDecrease = true
	}
	return settings
}

// chain is the shipped strategy on one series.
type chain struct {
	settings recommender.Settings
	// whole: samples are at least as far apart as steps of history, so that each is a step of its own.
	whole bool
	// step is the end of the step that is being collected, in Unix milliseconds; 0: no step.
	step int64
	of   recommender.Gathering
	// steps of the history window, oldest first.
	steps []recommender.StepUsage
	past  *adaptive.Past
	// estimates of the last decision.
	estimates [2]recommender.Estimate
	// killed is the highest floor learned from an OOM kill, in bytes; killedAt is when it was learned.
	killed   recommender.Amount
	killedAt time.Time
}

func newChain(s Series, settings recommender.Settings) *chain {
	return &chain{settings: settings, whole: Step(s.Samples) >= settings.QueryStep, past: adaptive.NewPast(settings)}
}

// Promised implements Promiser. It is the estimate for the chosen rule and margin. The size in force may be higher,
// because a decrease is delayed. The strategy Workload promises nothing.
func (c *chain) Promised() [2]float64 {
	promised := nothing
	for r, e := range c.estimates {
		if e.Amount > 0 {
			promised[r] = e.Short
		}
	}
	return promised
}

// Observe implements Algorithm.
func (c *chain) Observe(s Sample, _ Size) {
	cpu, memory := s.Used[recommender.CPU], s.Used[recommender.Memory]
	if c.whole {
		c.add(recommender.SingleStep(time.UnixMilli(s.At).UTC(), cpu, memory))
		return
	}
	if end := above(s.At, c.settings.QueryStep.Milliseconds()); end != c.step {
		c.close()
		c.step, c.of = end, recommender.NewGathering(time.UnixMilli(end).UTC())
	}
	c.of.Add(cpu, memory)
}

// close ends the step that is being collected.
func (c *chain) close() {
	if c.step == 0 {
		return
	}
	c.add(c.of.Step())
	c.step = 0
}

// add a step, and drop steps that have left the window.
func (c *chain) add(step recommender.StepUsage) {
	c.steps = append(c.steps, step)
	for len(c.steps) > 0 && step.At.Sub(c.steps[0].At) >= c.settings.HistoryWindow {
		c.steps = c.steps[1:]
	}
}

// OOM implements Algorithm.
func (c *chain) OOM(at int64, limit float64) bool {
	now, floor := time.UnixMilli(at), recommender.OOMFloor(recommender.Amount(limit))
	if floor >= recommender.Decay(c.killed, c.killedAt, now) {
		c.killed, c.killedAt = floor, now
	}
	return true
}

// Decide implements Algorithm.
func (c *chain) Decide(at int64) Size {
	if c.step != 0 && c.step <= at {
		c.close()
	}
	now := time.UnixMilli(at).UTC()
	in := recommender.Input{Settings: c.settings, Now: now}
	if c.settings.Adapts() { // It uses no distributions.
		c.estimates = c.past.Estimates(c.steps)
		in.Profile, in.Estimates = recommender.Outline(c.steps, c.settings.QueryStep), &c.estimates
	} else {
		in.Profile = recommender.NewProfile(c.steps, c.settings.QueryStep)
	}
	if c.killed > 0 {
		in.Floors[recommender.Memory] = recommender.Floor{Amount: recommender.Decay(c.killed, c.killedAt, now), Reason: "oomkill"}
	}
	target := recommender.Target(in).Target
	size := nothing
	for r, unit := range [2]float64{recommender.CPU: 1000, recommender.Memory: 1} {
		if request := target[r].Request; request > 0 {
			size[r] = float64(request) / unit
		}
	}
	return size
}
