package backtest

import (
	"fmt"
	"slices"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/adaptive"
)

// Shipped is this project's strategy Workload or Adaptive, whichever the settings say: the shipped rules on the history of
// the container, with the floors that its OOM kills teach. The settings are those of a policy.
func Shipped(name string, settings recommender.Settings) Strategy {
	s := Strategy{Name: name, New: func(s Series) Algorithm {
		if settings.Adapts() {
			return &adapting{newChain(s, settings)}
		}
		return newChain(s, settings)
	}}
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

// Alone returns the settings for judging each container by itself: nothing waits for data, and no step is capped.
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
	// whole: samples are as far apart as steps of history or farther, so that each is a step of its own.
	whole bool
	// step is the end of the step that is being collected, in Unix milliseconds; 0: none is.
	step    int64
	of      recommender.Gathering
	history history
	past    *adaptive.Past
	// estimates of the last decision.
	estimates [2]recommender.Estimate
	// killed is the highest floor that an OOM kill taught, in bytes, and when.
	killed   recommender.Amount
	killedAt time.Time
}

func newChain(s Series, settings recommender.Settings) *chain {
	return &chain{settings: settings, whole: Step(s.Samples) >= settings.QueryStep, history: history{step: settings.QueryStep, span: settings.HistoryWindow},
		past: adaptive.NewPast(settings)}
}

// adapting is the chain with the strategy Adaptive, which says how much shortage it expects.
type adapting struct{ *chain }

// Promised implements Promiser. It is that of the pair of rule and margin; the size in force may be more, as it is held for
// a while when less is wanted.
func (a *adapting) Promised() [2]float64 {
	promised := nothing
	for r, e := range a.estimates {
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
		c.history.add(recommender.SingleStep(time.UnixMilli(s.At).UTC(), cpu, memory))
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
	c.history.add(c.of.Step())
	c.step = 0
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
	in := recommender.Input{Profile: c.history.profile(), Settings: c.settings, Now: now}
	if c.settings.Adapts() {
		c.estimates = c.past.Estimates(c.history.steps)
		in.Estimates = &c.estimates
	}
	if c.killed > 0 {
		in.Floors[recommender.Memory] = recommender.Floor{Amount: recommender.Decay(c.killed, c.killedAt, now), Reason: "oomkill"}
	}
	target := recommender.Target(in).Target
	size := nothing
	if cpu := target[recommender.CPU].Request; cpu > 0 {
		size[recommender.CPU] = float64(cpu) / 1000
	}
	if memory := target[recommender.Memory].Request; memory > 0 {
		size[recommender.Memory] = float64(memory)
	}
	return size
}

// history is a window of steps whose profile costs what came since the last one, not what is in it.
type history struct {
	step, span time.Duration
	steps      []recommender.StepUsage
	of         [2]resourceHistory
}

// resourceHistory has the values of one resource, overall and by hour of the day.
type resourceHistory struct {
	overall ascending
	hours   [24]ascending
}

// ascending are values in order.
type ascending []recommender.Usage

// Count implements recommender.Distribution.
func (a *ascending) Count() int { return len(*a) }

// Quantile implements recommender.Distribution.
func (a *ascending) Quantile(q float64) recommender.Usage { return recommender.Quantile(*a, q) }

func (a *ascending) insert(value recommender.Usage) {
	i, _ := slices.BinarySearch(*a, value)
	*a = slices.Insert(*a, i, value)
}

func (a *ascending) remove(value recommender.Usage) {
	i, _ := slices.BinarySearch(*a, value)
	*a = slices.Delete(*a, i, i+1)
}

// add a step, and drop those that the window has left behind.
func (h *history) add(step recommender.StepUsage) {
	h.steps = append(h.steps, step)
	h.each(step, (*ascending).insert)
	for len(h.steps) > 0 && step.At.Sub(h.steps[0].At) >= h.span {
		h.each(h.steps[0], (*ascending).remove)
		h.steps = h.steps[1:]
	}
}

// each applies a change to the distributions that a step is in.
func (h *history) each(step recommender.StepUsage, change func(*ascending, recommender.Usage)) {
	for r, value := range values(step) {
		if measured(float64(value)) {
			change(&h.of[r].overall, value)
			change(&h.of[r].hours[step.At.UTC().Hour()], value)
		}
	}
}

// values are the usage of a step in millicores and bytes; NaN: not measured.
func values(step recommender.StepUsage) [2]recommender.Usage {
	return [2]recommender.Usage{recommender.Usage(step.CPUCores * 1000), recommender.Usage(step.MemoryBytes)}
}

// profile is what recommender.NewProfile makes of the steps.
func (h *history) profile() recommender.Profile {
	profile := recommender.Outline(h.steps, h.step)
	for r := range h.of {
		of := &profile.Of[r]
		if of.Points == 0 {
			continue
		}
		of.Overall = &h.of[r].overall
		for hour := range of.Hours {
			if len(h.of[r].hours[hour]) > 0 {
				of.Hours[hour] = &h.of[r].hours[hour]
			}
		}
	}
	return profile
}
