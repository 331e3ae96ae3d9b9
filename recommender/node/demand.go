package node

import (
	"time"

	"attune.io/attune/recommender"
)

// Windows of demand.
const (
	// BaseCPUWindow and BaseMemoryWindow are how far back a container's own usage makes its base.
	BaseCPUWindow    = 10 * time.Minute
	BaseMemoryWindow = 30 * time.Minute
	// Horizon is how far the forecast looks back and ahead.
	Horizon = time.Hour
	// Season is what repeats, and Seasons how many of the last ones are looked at.
	Season  = 24 * time.Hour
	Seasons = 7
	// PeakWindow is how far back the peak goes that a memory limit rests on.
	PeakWindow = Seasons * Season

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

// Day is the highest usage of the last 24 hours: what a newcomer is given, which is placed for days and not for
// an hour, and the peak of memory on a node as well. False where nothing was measured.
func Day(of Span, now time.Time) (recommender.Usage, bool) { return of(now.Add(-Season), now) }

// Max7d is the highest usage of the last 7 days.
func Max7d(of Span, now time.Time) (recommender.Usage, bool) { return of(now.Add(-PeakWindow), now) }

// Forecast is what is known of a container's usage: its own base, and its workload's peak.
type Forecast struct {
	Base, Peak           recommender.Usage
	BaseKnown, PeakKnown bool
}

// Demand that follows from what is known. A pod that is too young to have a base of its own asks for its
// peak, as it was admitted with. False where its workload's past is not known: then it is not to be
// changed.
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

// Within keeps a demand between what was learned that it needs at least (floors) and what is allowed at most, in
// whole amounts of its resource; zero is no bound. What is merely allowed at least was not measured: it is no demand
// (Container.Least). A CPU limit that stays is an upper
// bound too: a request is never above its limit, and waiting for CPU below a limit is not a demand that a
// request could meet.
func (d Demand) Within(r recommender.Resource, least, most recommender.Amount) Demand {
	d.Base, d.Peak = max(d.Base, least), max(d.Peak, least)
	if most > 0 {
		d.Base, d.Peak = min(d.Base, most), min(d.Peak, most)
	}
	return Demand{r.WholeWithin(d.Base, least, most), r.WholeWithin(d.Peak, least, most)}
}

// Unmeasured is the demand of a resource that nothing is known of: it keeps what it holds.
func Unmeasured(current recommender.Amount) Demand { return Demand{current, current} }
