package packed

import (
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// Strategy sizes pods.
type Strategy struct {
	Name string
	// birth is a newcomer's request, tick what is done about a node in a minute.
	birth func(*cluster, *series) recommender.Amount
	tick  func(*cluster, *machine)
}

func nothing(*cluster, *machine) {}

// Static requests are the peak of all history.
func Static() Strategy {
	return Strategy{"static: peak of all history", func(c *cluster, s *series) recommender.Amount {
		return whole(c.usage.over(s.workload, 0, c.minute))
	}, nothing}
}

// Admissions is the first phase of the strategy Node alone: the day's peak.
func Admissions() Strategy { return Strategy{"Node, births alone", (*cluster).dayPeak, nothing} }

// Node is the strategy Node.
func Node() Strategy { return Strategy{"Node", (*cluster).dayPeak, (*cluster).share} }

// dayPeak is what the strategy Node gives a newcomer.
func (c *cluster) dayPeak(s *series) recommender.Amount {
	day, _ := node.Day(c.span(s.workload), c.now)
	return max(1, day.RoundUp())
}

// Workload is the strategy Workload with its built-in settings, looked at each hour.
func Workload() Strategy {
	targets := map[string]recommender.Amount{}
	var made int
	target := func(c *cluster, s *series) recommender.Amount {
		if hour := c.minute / 60; hour != made {
			made = hour
			clear(targets)
		}
		known, ok := targets[s.workload]
		if !ok {
			known = c.chain(s.workload)
			targets[s.workload] = known
		}
		return known
	}
	return Strategy{"Workload", target, func(c *cluster, m *machine) {
		if (c.minute+m.phase)%60 != 0 {
			return
		}
		var moves []move
		for _, p := range m.pods {
			if to := target(c, p.series); !recommender.WithinDeadBand(p.request, to) {
				moves = append(moves, move{p, to})
			}
		}
		c.move(m, moves)
	}}
}

// chain of estimators, with the built-in settings.
func (c *cluster) chain(workload string) recommender.Amount {
	const step = 5
	settings := recommender.Settings{HistoryWindow: node.PeakWindow, QueryStep: step * time.Minute, MinimumDataPoints: 1}
	settings.Of[cpu] = recommender.ResourceSettings{Percentile: 95, OverheadPercent: 20, BurstSensitivity: 0.1, MaxChangePercent: 50, AllowDecrease: true}
	settings.Of[recommender.Memory] = recommender.ResourceSettings{Percentile: 99, OverheadPercent: 30, BurstSensitivity: 0.1, MaxChangePercent: 30}
	highest := c.usage.highest[workload]
	var steps []recommender.StepUsage
	for i := max(0, c.minute-int(node.PeakWindow.Minutes())); i+step <= c.minute; i += step {
		steps = append(steps, recommender.StepUsage{
			At: begin.Add(time.Duration(i+step) * time.Minute), CPUCores: highest[i+step-1], CPUPeak: c.usage.over(workload, i, i+step-1), MemoryBytes: memory,
		})
	}
	out := recommender.Target(recommender.Input{Container: "app", Profile: recommender.NewProfile(steps, settings.QueryStep), Settings: settings, Now: c.now})
	return max(1, out.Target[cpu].Request)
}
