package adaptive

import (
	"math"
	"time"
)

// terms are the constants of a resource's estimators.
type terms struct {
	rules   []rule
	margins [marginCount]float64
	// unit of the price: millicores in a core, bytes in a GiB.
	unit float64
	// price of shortage at risk 1: core-minutes for a starved minute, GiB-hours for an OOM kill.
	price float64
	// most is the part of time or hours with shortage that is always tolerated.
	most float64
	// weight of the prior, in hours of evidence.
	weight float64
	// hidden is the ratio of actual to counted shortage for the chosen pair. A pair is chosen for its low count, and
	// the minimum of many estimates is too low by chance (the optimizer's curse, Smith and Winkler 2006). Measured in
	// docs/quality.md.
	hidden float64
	// hold is how long a wish is kept: a shorter trough is not followed.
	hold time.Duration
	// raisePast and lowerPast are the parts of the size in force beyond which it is changed. leastMove is the smallest
	// lowering that is worth a change.
	raisePast, lowerPast, leastMove float64
	// byHour: usage above a size counts once per hour (an OOM kill), not by its duration.
	byHour bool
}

const marginCount = 16

// betweenFalls is the minimum time between two falls of a container, of either resource: two a day.
const betweenFalls = 12 * time.Hour

// rule is one statistic of the past.
type rule struct {
	name string
	// hours is the window of the maximum; 0: all history. percentile: the load-weighted 95th percentile.
	hours      int
	percentile bool
	// prior is the part of time or hours in which usage exceeds each margin times the rule, over all containers.
	prior [marginCount]float64
}

// Priors: the probability that usage exceeds its own maximum of the last hours by a factor falls like a power of the
// factor. The constants are fitted to the pooled rates of public traces; a container's own evidence outweighs them
// within days.
func cpuPrior(once float64) (prior [marginCount]float64) {
	for i, k := range cpuMargins {
		prior[i] = once * math.Pow(1+10*max(k-1, 0), -1.5)
		if k < 1 {
			prior[i] = max(once, min(0.8, 2*(1-k)))
		}
	}
	return prior
}

func memoryPrior(once float64) (prior [marginCount]float64) {
	for i, k := range memoryMargins {
		prior[i] = once / (k - 1 + 0.02)
		if k < 1 {
			prior[i] = 0.5
		}
	}
	return prior
}

var (
	cpuMargins    = [marginCount]float64{0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.5, 3, 4, 6}
	memoryMargins = [marginCount]float64{0.9, 0.95, 1, 1.01, 1.02, 1.03, 1.05, 1.08, 1.12, 1.16, 1.22, 1.3, 1.4, 1.6, 2, 2.6}
)

var cpuTerms = terms{
	rules: []rule{
		{name: "max of 1 h", hours: 1, prior: cpuPrior(0.05)},
		{name: "max of 3 h", hours: 3, prior: cpuPrior(0.027)},
		{name: "max of 24 h", hours: 24, prior: cpuPrior(0.0055)},
		{name: "load-weighted p95", percentile: true, prior: cpuPrior(0.0124)},
		{name: "max ever", prior: cpuPrior(0.002)},
	},
	margins: cpuMargins,
	unit:    1000, price: 20, most: 0.03, weight: 24, hidden: 3,
	hold: 3 * time.Hour, raisePast: 0.08, lowerPast: 0.1, leastMove: 10,
}

var memoryTerms = terms{
	rules: []rule{
		{name: "max of 1 h", hours: 1, prior: memoryPrior(5e-3)},
		{name: "max of 6 h", hours: 6, prior: memoryPrior(1.6e-3)},
		{name: "max of 14 d", hours: 14 * 24, prior: memoryPrior(3e-4)},
	},
	margins: memoryMargins,
	unit:    1 << 30, price: 1000, most: 1, weight: 72, hidden: 1,
	hold: 6 * time.Hour, raisePast: 0.03, lowerPast: 0.1, leastMove: 16 << 20, byHour: true,
}
