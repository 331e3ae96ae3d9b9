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
	// Season is the period of recurring load, and Seasons how many of the last ones the forecast looks at.
	Season  = 24 * time.Hour
	Seasons = 7
	// PeakWindow is how far back the peak for a memory limit goes.
	PeakWindow = Seasons * Season

	// baseQuantile of the usage in the window is the base.
	baseQuantile = 0.75
)

// Span answers the highest usage of a workload's replicas between two times; false where nothing was
// measured.
type Span func(from, to time.Time) (recommender.Usage, bool)

// Peak is the forecast for the coming hour: the highest usage of the last hour and of the coming hour on
// each of the last 7 days. It is the peak of CPU on a node, where it can be taken back an hour later. It looks
// ahead, since that is the hour to get through. False where nothing was measured.
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

// Day is the highest usage of the last 24 hours. A new pod is given it, since it is placed for days and not for an hour;
// it is also the peak of memory on a node. False where nothing was measured.
func Day(of Span, now time.Time) (recommender.Usage, bool) { return of(now.Add(-Season), now) }

// Max7d is the highest usage of the last 7 days.
func Max7d(of Span, now time.Time) (recommender.Usage, bool) { return of(now.Add(-PeakWindow), now) }

// Forecast of a container's usage: its own base, and its workload's peak, as far as either is known.
type Forecast struct {
	Base, Peak           recommender.Usage
	BaseKnown, PeakKnown bool
}

// Demand that follows from the forecast, 0 < base ≤ peak. A pod that is too young to have a base of its own asks for its
// peak, with which it was admitted. False where its workload's past is not known: then it is not to be changed.
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

// Within keeps a demand between the least that it is known to need (floors learned from harm) and the most that is
// allowed, in whole amounts of its resource; zero is no bound. The least that a policy allows is not a demand
// (Container.Least). A CPU limit that stays is an upper bound too: a request is never above its limit, and waiting for
// CPU below a limit is not a demand that a request could meet.
func (d Demand) Within(r recommender.Resource, least, most recommender.Amount) Demand {
	d.Base, d.Peak = max(d.Base, least), max(d.Peak, least)
	if most > 0 {
		d.Base, d.Peak = min(d.Base, most), min(d.Peak, most)
	}
	return Demand{r.WholeWithin(d.Base, least, most), r.WholeWithin(d.Peak, least, most)}
}

// Unmeasured is the demand for a resource of which no usage is known: the container keeps what it holds.
func Unmeasured(current recommender.Amount) Demand { return Demand{current, current} }

// Asks is the demand with which a container takes part, whether it can be given it now or not.
func (p *Pod) Asks(c *Container, r recommender.Resource) Demand {
	return p.demand(c, r, recommender.MaxAmount)
}

// demand of a container, whether it may be changed or not, with no amount above the greatest. A DaemonSet's is no more
// than what it was born with, as no pod may be evicted for one that cannot be refused: its CPU is no more than its base,
// and its memory, which cannot be shared, its peak.
func (p *Pod) demand(c *Container, r recommender.Resource, greatest recommender.Amount) Demand {
	base := bounded(c.Of[r].Base, greatest)
	peak := max(base, bounded(c.Of[r].Peak, greatest))
	born := bounded(c.Born[r], greatest)
	if !p.DaemonSet || born == 0 {
		return Demand{base, peak}
	}
	base, peak = min(base, born), min(peak, born)
	if r == recommender.CPU {
		peak = base
	}
	return Demand{base, peak}
}

// fixed: what the container holds of the resource is not changed now.
func (p *Pod) fixed(c *Container, r recommender.Resource) bool { return p.Frozen || c.Restarts[r] }

// attainable is as much of an amount as the container can have now: what it holds it can have in any case.
func (c *Container) attainable(a recommender.Amount, r recommender.Resource) recommender.Amount {
	if c.Reach[r] <= 0 {
		return a
	}
	return min(a, max(c.Reach[r], c.Current[r]))
}

// Seed is a container's size at admission, before its pod has a node: its day's peak, so that the scheduler finds a place
// that the pod never has to leave while its demand stays the same.
//
// CPU has no limit of its own: an existing one stays as the template has it, since to remove it may change
// the pod's quality-of-service class or break a quota. In a Guaranteed pod request and limit are the peak,
// not below MemoryLimitFloor; it is not touched afterwards.
type Seed struct {
	// Request of each resource; zero leaves it alone.
	Request Amounts
	// MemoryLimit as MemoryLimit has it; zero leaves it alone.
	MemoryLimit recommender.Amount
	// MemoryLimitFloor is the lower bound of any memory limit, learned from OOM kills.
	MemoryLimitFloor recommender.Amount
}

// SeedOf a container: max(base, Day), at least what its policy allows; where the day is not known, the peak stands for it.
// A resource whose demand is not known, the zero Demand, is left alone. A forecast above the day's peak does not count: a
// pod is admitted at its peak where its workload's last day was its worst.
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
