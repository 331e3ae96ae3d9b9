package node

import (
	"time"

	"attune.io/attune/recommender"
)

// Windows of demand.
const (
	// BaseCPUWindow and BaseMemoryWindow are how far back a container's own usage counts for its base.
	BaseCPUWindow    = 10 * time.Minute
	BaseMemoryWindow = 30 * time.Minute
	// Horizon is how far the forecast looks back and ahead.
	Horizon = time.Hour
	// Season is the period of recurring load. Seasons is how many past periods the forecast reads.
	Season  = 24 * time.Hour
	Seasons = 7
	// PeakWindow is how far back the peak for a memory limit goes.
	PeakWindow = Seasons * Season

	// baseQuantile is the quantile of the usage in the window that becomes the base.
	baseQuantile = 0.75
)

// Span returns the highest usage of a workload's replicas between two times. It returns false if nothing was measured.
type Span func(from, to time.Time) (recommender.Usage, bool)

// Peak is the forecast for the coming hour: the highest usage of the last hour, and of the same coming hour on each of
// the last 7 days. It is the CPU peak on a node, because CPU can be reclaimed an hour later. It returns false if
// nothing was measured.
func Peak(of Span, now time.Time) (recommender.Usage, bool) {
	peak, known := of(now.Add(-Horizon), now)
	for season := 1; season <= Seasons; season++ {
		then := now.Add(-time.Duration(season) * Season)
		if highest, ok := of(then, then.Add(Horizon)); ok {
			peak, known = max(peak, highest), true
		}
	}
	return peak, known
}

// Day is the highest usage of the last 24 hours. Created pods get it, because the scheduler places a pod for days, not
// for an hour. It is also the memory peak on a node. It returns false if nothing was measured.
func Day(of Span, now time.Time) (recommender.Usage, bool) { return of(now.Add(-Season), now) }

// Max7d is the highest usage of the last 7 days. It returns false if nothing was measured.
func Max7d(of Span, now time.Time) (recommender.Usage, bool) { return of(now.Add(-PeakWindow), now) }

// Forecast of a container's usage: its own base and its workload's peak. BaseKnown and PeakKnown say which are known.
type Forecast struct {
	Base, Peak           recommender.Usage
	BaseKnown, PeakKnown bool
}

// Demand returns the demand of the forecast, 0 < base ≤ peak. A pod that is too young for a base of its own asks for
// its peak, with which it was admitted. It returns false if the workload's history is unknown; the container must then
// not be changed.
func (f Forecast) Demand() (Demand, bool) {
	if !f.PeakKnown {
		return Demand{}, false
	}
	// Zero would mean not set.
	peak := max(1, f.Peak.RoundUp())
	if !f.BaseKnown {
		return Demand{peak, peak}, true
	}
	base := max(1, f.Base.RoundUp())
	return Demand{base, max(base, peak)}, true
}

// Within bounds a demand, in whole amounts of its resource. least is the minimum learned from regressions, most the
// highest amount allowed; zero is no bound. The policy's minimum is not part of the demand (see Container.Least). A CPU
// limit that stays is an upper bound too: a request never exceeds its limit, and a higher request cannot shorten the
// wait for CPU below a limit.
func (d Demand) Within(r recommender.Resource, least, most recommender.Amount) Demand {
	d.Base, d.Peak = max(d.Base, least), max(d.Peak, least)
	if most > 0 {
		d.Base, d.Peak = min(d.Base, most), min(d.Peak, most)
	}
	return Demand{r.WholeWithin(d.Base, least, most), r.WholeWithin(d.Peak, least, most)}
}

// Unmeasured is the demand for a resource without known usage: the container keeps its current request.
func Unmeasured(current recommender.Amount) Demand { return Demand{current, current} }

// Asks is the demand with which a container takes part, even if it cannot get all of it now.
func (p *Pod) Asks(c *Container, r recommender.Resource) Demand {
	return p.demand(c, r, recommender.MaxAmount)
}

// demand of a container, whether it may be changed or not, with no amount above greatest. The demand of a DaemonSet's
// container never exceeds the requests it was created with, because a DaemonSet pod cannot be refused and must not
// evict others. Its CPU peak is its base, because it takes no part of the reserve. Memory cannot be shared, so it keeps
// its peak.
func (p *Pod) demand(c *Container, r recommender.Resource, greatest recommender.Amount) Demand {
	base := bounded(c.Of[r].Base, greatest)
	peak := max(base, bounded(c.Of[r].Peak, greatest))
	createdWith := bounded(c.AtCreation[r], greatest)
	if !p.DaemonSet || createdWith == 0 {
		return Demand{base, peak}
	}
	base, peak = min(base, createdWith), min(peak, createdWith)
	if r == recommender.CPU {
		peak = base
	}
	return Demand{base, peak}
}

// fixed reports whether the container's request of the resource must not be changed now.
func (p *Pod) fixed(c *Container, r recommender.Resource) bool { return p.Frozen || c.Restarts[r] }

// attainable bounds an amount by the container's Reach. The container can always have its current request.
func (c *Container) attainable(a recommender.Amount, r recommender.Resource) recommender.Amount {
	if c.Reach[r] <= 0 {
		return a
	}
	return min(a, max(c.Reach[r], c.Current[r]))
}

// Seed is a container's size at admission, before its pod has a node: its day's peak. The scheduler then finds a node
// that the pod never has to leave while its demand stays the same.
//
// Seed sets no CPU limit. A limit of the template stays, because removing it may change the pod's QoS class or violate
// a quota. In a Guaranteed pod, request and limit are the peak of 7 days (package targets), at least MemoryLimitFloor;
// attune does not change them afterwards.
type Seed struct {
	// Request of each resource; zero leaves the template's request.
	Request Amounts
	// MemoryLimit as computed by Container.MemoryLimit; zero leaves the template's limit.
	MemoryLimit recommender.Amount
	// MemoryLimitFloor is the minimum of any memory limit, learned from OOM kills.
	MemoryLimitFloor recommender.Amount
}

// SeedOf returns max(base, Day), at least the policy's minimum. If Day is unknown, the peak is used instead. A resource
// with unknown (zero) demand is left unchanged. The forecast does not raise the size above Day: a workload whose last
// day was its worst is admitted at its peak.
func SeedOf(c *Container) Seed {
	seed := Seed{MemoryLimitFloor: c.OOM}
	for _, r := range recommender.Resources {
		peak := c.Day[r]
		if peak <= 0 {
			peak = c.Of[r].Peak
		}
		if peak = max(peak, c.Of[r].Base); peak > 0 {
			seed.Request[r] = max(peak, c.Least[r])
		}
	}
	if memory := seed.Request[recommender.Memory]; memory > 0 {
		seed.MemoryLimit = c.MemoryLimit(memory)
	}
	return seed
}
