package main

import (
	"fmt"
	"io"
	"math"
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
	d, comparable := backtest.AtEqualIncidents(b.sweep, peer, r)
	if !comparable {
		return fmt.Sprintf("| %s | %s | %.3g, – | %s, – | no risk of the sweep is as safe | – |\n", report.Name, r, report.Incidents(r), percent(report.Of[r].FleetSlack))
	}
	return fmt.Sprintf("| %s | %s | %.3g, %.3g | %s, %s | %+.1f [%+.1f, %+.1f] | %s |\n", d.Than, r, d.Incidents[1], d.Incidents[0],
		percent(d.Slack[1]), percent(d.Slack[0]), 100*(d.Slack[0]-d.Slack[1]), 100*d.Low, 100*d.High, d.Of)
}
