package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// sweep are the risks at which strategy Adaptive is compared: half a doubling apart.
func sweep(settings recommender.Settings) (all []backtest.Strategy) {
	for i := -16; i <= 16; i++ {
		all = append(all, backtest.Adaptive(math.Round(1000*math.Exp2(float64(i)/2))/1000, settings))
	}
	return all
}

// equal writes the comparison of strategy Adaptive with each peer, at no more incidents than the peer has.
func (b *board) equal(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\nAt no more incidents than each peer on %s: fleet slack, and its difference with the 95 %% interval of a paired bootstrap over series.\n\n", b.name)
	text.WriteString("| peer | resource | incidents/day: peer, adaptive | slack: peer, adaptive | difference | at |\n|---|---|--:|--:|--:|---|\n")
	for _, peer := range b.tallies {
		for _, r := range recommender.Resources {
			if name := peer.Report().Name; !strings.HasPrefix(name, "oracle") && !strings.HasPrefix(name, "adaptive") {
				text.WriteString(b.against(peer, r))
			}
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// against one peer; empty where the peer does not size the resource, or not as the sweep does.
func (b *board) against(peer *backtest.Tally, r recommender.Resource) string {
	report := peer.Report()
	if !report.Of[r].Measured || r == recommender.Memory && report.Own {
		return "" // its kills are those of a limit that it has beside the request, which the sweep has not
	}
	d, comparable := atEqualIncidents(b.sweep, peer, r)
	if !comparable {
		return fmt.Sprintf("| %s | %s | %.3g, – | %s, – | no risk of the sweep is as safe | – |\n", report.Name, r, report.Incidents(r), percent(report.Of[r].FleetSlack))
	}
	return fmt.Sprintf("| %s | %s | %.3g, %.3g | %s, %s | %+.1f [%+.1f, %+.1f] | %s |\n", d.than, r, d.incidents[1], d.incidents[0],
		percent(d.slack[1]), percent(d.slack[0]), 100*(d.slack[0]-d.slack[1]), 100*d.low, 100*d.high, d.of)
}

// difference is how much less a strategy reserves than another one at no more incidents: fleet slack minus the other's,
// negative where it is better, with a 95 % interval of a bootstrap over series that are drawn in pairs.
type difference struct {
	// of names the strategy, than the other one.
	of, than string
	// slack and incidents of both: starved minutes for CPU, OOM hours for memory, each a container-day.
	slack, incidents [2]float64
	// low and high bound the difference of slacks.
	low, high float64
}

// draws is how often the bootstrap draws.
const draws = 1000

// atEqualIncidents compares the member of a sweep that has the least slack at no more incidents than a peer with that
// peer, on one resource; false where no member is as safe. Tallies have the scores of the same series.
func atEqualIncidents(sweep []*backtest.Tally, peer *backtest.Tally, r recommender.Resource) (difference, bool) {
	than := peer.Report()
	var best *backtest.Tally
	var of backtest.Report
	for _, t := range sweep {
		report := t.Report()
		if report.Incidents(r) <= than.Incidents(r) && (best == nil || report.Of[r].FleetSlack < of.Of[r].FleetSlack) {
			best, of = t, report
		}
	}
	if best == nil || !than.Of[r].Measured {
		return difference{}, false
	}
	d := difference{
		of: of.Name, than: than.Name, slack: [2]float64{of.Of[r].FleetSlack, than.Of[r].FleetSlack},
		incidents: [2]float64{of.Incidents(r), than.Incidents(r)},
	}
	d.low, d.high = interval(best.Scores(), peer.Scores(), r)
	return d, true
}

// interval of the difference of fleet slacks. It is the same each time.
func interval(a, b []backtest.Score, r recommender.Resource) (low, high float64) {
	rng := rand.New(rand.NewPCG(1, 1))
	differences := make([]float64, draws)
	for i := range differences {
		var sums [2]backtest.ResourceScore
		for range a {
			n := rng.IntN(len(a))
			for k, s := range []backtest.Score{a[n], b[n]} {
				sums[k].Requested += s.Of[r].Requested
				sums[k].Used += s.Of[r].Used
			}
		}
		differences[i] = sums[1].Used/sums[1].Requested - sums[0].Used/sums[0].Requested
	}
	slices.Sort(differences)
	return differences[draws*25/1000], differences[draws*975/1000]
}
