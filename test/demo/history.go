package main

import (
	"math"
	"time"

	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

const (
	mebibyte = 1 << 20
	day      = 24 * time.Hour
	week     = 7 * day
)

// step is the time between two samples of the past: as long as the queryStep of the policies.
const step = time.Minute

// namespace is where the workloads of the manifests are.
const namespace = "shop"

// habit is what a workload's pods used over the last week.
type habit struct {
	workload string
	// night and noon are the CPU usage in cores at the quietest and the busiest hour of a weekday.
	night, noon float64
	// idle is the memory in MiB at night, busy what noon adds to it.
	idle, busy float64
	// burst is the CPU usage of one incident, six minutes long, in cores; 0: there was none.
	burst float64
	// policy that sizes it.
	policy string
}

var habits = []habit{
	{workload: "web", policy: "front", night: 0.010, noon: 0.070, idle: 90, busy: 30, burst: 0.400},
	{workload: "api", policy: "front", night: 0.015, noon: 0.110, idle: 110, busy: 40},
	{workload: "mail", policy: "mail", night: 0.005, noon: 0.040, idle: 60, busy: 10},
	{workload: "leaky", policy: "leaky", night: 0.010, noon: 0.020, idle: 58, busy: 2},
}

// past is the week up to now, as what the operator stores of a container.
func (h habit) past(now time.Time) codec.Checkpoint {
	incident := now.Add(-3*day - 90*time.Minute)
	c := codec.Checkpoint{Step: step, First: usage.StepOf(now.Add(-week), step) + 1}
	for n := c.First; n <= usage.StepOf(now, step); n++ {
		at := usage.StepEnd(n, step)
		c.CPU, c.Memory = append(c.CPU, h.cpu(at, incident)), append(c.Memory, h.memory(at))
	}
	return c
}

func (h habit) cpu(t, incident time.Time) float64 {
	if since := t.Sub(incident); h.burst > 0 && since >= 0 && since < 6*time.Minute {
		return h.burst
	}
	return (h.night + (h.noon-h.night)*load(t)) * jitter(t)
}

func (h habit) memory(t time.Time) float64 {
	return math.Round(h.idle+h.busy*load(t)) * mebibyte
}

// load is how busy people keep a shop, from 0 at night to 1 at noon (UTC), and less at the weekend.
func load(t time.Time) float64 {
	t = t.UTC()
	hour := float64(t.Hour()) + float64(t.Minute())/60
	busy := max(0, math.Sin((hour-6)/12*math.Pi))
	if t.Weekday() == time.Saturday || t.Weekday() == time.Sunday {
		return 0.4 * busy
	}
	return busy
}

// jitter is a factor around 1 that changes from hour to hour, and is the same in every run.
func jitter(t time.Time) float64 {
	return 1 + 0.08*math.Sin(float64(t.Unix()/3600%1009)*12.9898)
}
