package backtest

import (
	"math/rand/v2"
	"slices"

	"attune.io/attune/recommender"
)

// Difference is how much less a strategy reserves than another one at no more incidents: fleet slack minus the other's,
// negative where it is better, with a 95 % interval of a bootstrap over series that are drawn in pairs.
type Difference struct {
	// Of names the strategy, Than the other one.
	Of, Than string
	// Slack and Incidents of both: starved minutes for CPU, OOM hours for memory, each a container-day.
	Slack, Incidents [2]float64
	// Low and High bound the difference of slacks.
	Low, High float64
}

// Incidents are the starved minutes of CPU, or the OOM hours of memory, for each container-day.
func (r Report) Incidents(of recommender.Resource) float64 {
	if of == recommender.Memory {
		return r.OOMHours
	}
	return r.StarvedMinutes
}

// draws is how often the bootstrap draws.
const draws = 1000

// AtEqualIncidents compares the member of a sweep that has the least slack at no more incidents than a peer with that
// peer, on one resource; false where no member is as safe. Tallies have the scores of the same series.
func AtEqualIncidents(sweep []*Tally, peer *Tally, r recommender.Resource) (Difference, bool) {
	than := peer.Report()
	var best *Tally
	var of Report
	for _, t := range sweep {
		report := t.Report()
		if report.Incidents(r) <= than.Incidents(r) && (best == nil || report.Of[r].FleetSlack < of.Of[r].FleetSlack) {
			best, of = t, report
		}
	}
	if best == nil || !than.Of[r].Measured {
		return Difference{}, false
	}
	d := Difference{
		Of: of.Name, Than: than.Name, Slack: [2]float64{of.Of[r].FleetSlack, than.Of[r].FleetSlack},
		Incidents: [2]float64{of.Incidents(r), than.Incidents(r)},
	}
	d.Low, d.High = interval(best.scores, peer.scores, r)
	return d, true
}

// interval of the difference of fleet slacks. It is the same each time.
func interval(a, b []Score, r recommender.Resource) (low, high float64) {
	rng := rand.New(rand.NewPCG(1, 1))
	differences := make([]float64, draws)
	for i := range differences {
		var sums [2]ResourceScore
		for range a {
			n := rng.IntN(len(a))
			for k, s := range []Score{a[n], b[n]} {
				sums[k].Requested += s.Of[r].Requested
				sums[k].Used += s.Of[r].Used
			}
		}
		differences[i] = sums[1].Used/sums[1].Requested - sums[0].Used/sums[0].Requested
	}
	slices.Sort(differences)
	return differences[draws*25/1000], differences[draws*975/1000]
}
