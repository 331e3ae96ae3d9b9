package main

import (
	"math"
	"time"

	"attune.io/attune/test/cluster"
)

const (
	mebibyte = 1 << 20
	day      = 24 * time.Hour
	week     = 7 * day
)

// step is the time between two samples. The policies look at every minute by the rate of counters over
// it, which needs two samples at least.
const step = 20 * time.Second

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
	// earlier are the pods of the last week, one after another: the days between are rollouts. Usage
	// is found by their names, which are those that a Deployment's pods get.
	earlier []string
}

var habits = []habit{
	{
		workload: "web", night: 0.010, noon: 0.070, idle: 90, busy: 30, burst: 0.400,
		earlier: []string{"web-7d9c5b8f46-p4kzn", "web-6d4f8c7b9d-x2x7k"},
	},
	{workload: "api", night: 0.015, noon: 0.110, idle: 110, busy: 40, earlier: []string{"api-5f7c9d6b84-tq8wv"}},
	{workload: "mail", night: 0.005, noon: 0.040, idle: 60, busy: 10, earlier: []string{"mail-84b6d5c97f-h5nmz"}},
	{workload: "leaky", night: 0.010, noon: 0.020, idle: 58, busy: 2, earlier: []string{"leaky-6b9d7f4c58-2mxzt"}},
}

// history is the past of all workloads up to now.
func history(now time.Time) []cluster.Series {
	var all []cluster.Series
	for _, h := range habits {
		all = append(all, h.series(now)...)
	}
	return all
}

// series gives each earlier pod its share of the week. The last one is still there when the cluster
// starts: its end is left open.
func (h habit) series(now time.Time) []cluster.Series {
	incident := now.Add(-3*day - 90*time.Minute)
	span := week / time.Duration(len(h.earlier))
	var all []cluster.Series
	for i, pod := range h.earlier {
		s := cluster.Series{
			Namespace: namespace, Pod: pod, Container: "app",
			From: now.Add(-week + time.Duration(i)*span).Truncate(time.Minute), Step: step,
			CPU:    func(t time.Time) float64 { return h.cpu(t, incident) },
			Memory: h.memory,
		}
		if i < len(h.earlier)-1 {
			s.To = s.From.Add(span - step)
		}
		all = append(all, s)
	}
	return all
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

// jitter is a factor around 1 that changes from minute to minute, and is the same in every run.
func jitter(t time.Time) float64 {
	return 1 + 0.08*math.Sin(float64(t.Unix()/60%1009)*12.9898)
}
