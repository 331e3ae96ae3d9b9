package main

import (
	"fmt"
	"io"
	"strings"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// podsOfNode is how many series share a node, and the least of which a trace is judged by nodes.
const podsOfNode = 20

// nodes writes what predictors of a node's peak reserve on nodes of 20 series, beside the sums of what strategies request
// for the same pods.
func (b *board) nodes(w io.Writer) error {
	if len(b.series) < podsOfNode {
		return nil
	}
	all := spread(b.series, podsOfNode)
	var tallies []*backtest.Tally
	for i, n := range all {
		strategies := n.predictors()
		for _, s := range b.strategies {
			if !strings.HasPrefix(s.Name, "oracle") && !strings.HasSuffix(s.Name, "-cpu") {
				strategies = append(strategies, n.sum(s))
			}
		}
		for k, s := range strategies {
			if i == 0 {
				tallies = append(tallies, backtest.NewTally(s.Name))
			}
			tallies[k].Add(backtest.Replay(n.Series, s, b.rules))
		}
	}
	return writeNodes(w, b.name, len(all), tallies)
}

func writeNodes(w io.Writer, trace string, nodes int, tallies []*backtest.Tally) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\nBy nodes on %s: what is reserved for all pods of a node together, on %d nodes of at most %d series.\n\n", trace, nodes, podsOfNode)
	text.WriteString("| reserved | CPU slack | starved min/node-day | deep min/node-day | memory slack | hours of memory beyond/node-day |\n|---|--:|--:|--:|--:|--:|\n")
	for _, t := range tallies {
		r := t.Report()
		cpu, memory := r.Of[recommender.CPU], r.Of[recommender.Memory]
		cells := []string{r.Name, "–", "–", "–", "–", "–"}
		if cpu.Measured {
			cells[1], cells[2], cells[3] = percent(cpu.FleetSlack), fmt.Sprintf("%.1f", r.StarvedMinutes), fmt.Sprintf("%.1f", r.DeepMinutes)
		}
		if memory.Measured {
			cells[4], cells[5] = percent(memory.FleetSlack), fmt.Sprintf("%.3f", r.OOMHours)
		}
		text.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}
