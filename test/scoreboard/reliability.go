package main

import (
	"fmt"
	"io"
	"strings"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// promised writes what strategy Adaptive promised and what came of it, at risk 1 and over all risks of the sweep.
func (b *board) promised(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\nPromised and observed on %s: the part of time (CPU) or of hours (memory) that is short until the next decision, by what was promised.\n\n", b.name)
	text.WriteString("| risk | resource | promised | observed | decisions | hours |\n|---|---|--:|--:|--:|--:|\n")
	for _, of := range []struct {
		risk  string
		found *backtest.Reliability
	}{{"1", &b.atOne}, {"all", &b.atAll}} {
		for _, r := range recommender.Resources {
			for _, bin := range of.found.Bins(r) {
				text.WriteString(promises(of.risk, r.String(), bin))
			}
			if total := of.found.Total(r); total.Time > 0 {
				text.WriteString(promises(of.risk, r.String()+", together", total))
			}
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func promises(risk, of string, p backtest.Promises) string {
	return fmt.Sprintf("| %s | %s | %.3g %% | %.3g %% | %d | %.0f |\n", risk, of, 100*p.PromisedPart(), 100*p.ObservedPart(), p.Decisions, p.Time.Hours())
}
