package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage/csvfile"
)

// warmups are how much of each data set is history only, by the name of its file up to the first dot: as much as its
// span allows.
var warmups = map[string]time.Duration{
	"smaug": 24 * time.Hour, "google2011": 72 * time.Hour, "alibaba2018": 72 * time.Hour, "google2019": 96 * time.Hour, "genai2026": 6 * time.Hour,
}

// board is the table of one data set.
type board struct {
	name       string
	rules      backtest.Rules
	strategies []backtest.Strategy
	tallies    []*backtest.Tally
	// risks are those of strategy Adaptive, sweep what came of them.
	risks []backtest.Strategy
	sweep []*backtest.Tally
	// atOne compares what strategy Adaptive promises at risk 1 with what comes of it, atAll at all risks of the sweep.
	atOne, atAll backtest.Reliability
	// series of the trace, which share nodes.
	series []backtest.Series
}

// newBoard has the peers and the shipped strategy with the built-in settings.
func newBoard(name string) (*board, error) {
	workload, err := policy.Defaults(v1alpha1.StrategyWorkload)
	if err != nil {
		return nil, err
	}
	own, err := policy.Defaults(v1alpha1.StrategyAdaptive)
	if err != nil {
		return nil, err
	}
	adapts := backtest.Alone(own.Recommender)
	b := rulesOf(name)
	b.risks = sweep(adapts)
	b.strategies = append(backtest.Peers(), backtest.Shipped("attune", backtest.Alone(workload.Recommender)), backtest.Adaptive(1, adapts))
	for _, s := range b.strategies {
		b.tallies = append(b.tallies, backtest.NewTally(s.Name))
	}
	for i, s := range b.risks {
		b.risks[i] = backtest.Promising(s, &b.atAll)
		b.sweep = append(b.sweep, backtest.NewTally(s.Name))
	}
	return b, nil
}

// rulesOf is an empty board with the rules of a data set.
func rulesOf(name string) *board {
	b := &board{name: name, rules: backtest.Rules{Warmup: 24 * time.Hour, Cadence: time.Hour}}
	if warmup, known := warmups[strings.SplitN(name, ".", 2)[0]]; known {
		b.rules.Warmup = warmup
	}
	return b
}

// boardOf a trace.
func boardOf(trace string, empty func(name string) (*board, error)) (*board, error) {
	b, err := empty(strings.TrimSuffix(filepath.Base(trace), ".csv.gz"))
	if err != nil {
		return nil, err
	}
	_, err = csvfile.Each(trace, func(float64) {}, func(of backtest.Series) error {
		b.play(of)
		return nil
	})
	return b, err
}

// play one series through every strategy.
func (b *board) play(series backtest.Series) {
	b.series = append(b.series, series)
	for i, s := range b.strategies {
		b.tallies[i].Add(backtest.Replay(series, backtest.Promising(s, &b.atOne), b.rules))
	}
	for i, s := range b.risks {
		b.sweep[i].Add(backtest.Replay(series, s, b.rules))
	}
}

// write the table in Markdown.
func (b *board) write(w io.Writer) error {
	first := b.tallies[0].Report()
	var text strings.Builder
	fmt.Fprintf(&text, "\n#### %s (%d series, %.0f container-days, warm-up %.0f h, a decision each %.0f min)\n\n", b.name, first.Series, first.ContainerDays,
		b.rules.Warmup.Hours(), b.rules.Cadence.Minutes())
	text.WriteString("| algorithm | CPU slack (fleet) | (median) | starved min/day | deep min/day | memory slack (fleet) | (median) | OOM-h/day | containers with OOM | resizes/day |\n")
	text.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, t := range b.tallies {
		text.WriteString(row(t) + "\n")
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	if err := b.equal(w); err != nil {
		return err
	}
	if err := b.promised(w); err != nil {
		return err
	}
	return b.nodes(w)
}

func row(t *backtest.Tally) string {
	report := t.Report()
	cells := []string{report.Name, "–", "–", "–", "–", "–", "–", "–", "–", fmt.Sprintf("%.2f", report.Resizes)}
	if cpu := report.Of[recommender.CPU]; cpu.Measured {
		cells[1], cells[2] = percent(cpu.FleetSlack), percent(cpu.MedianSlack)
		cells[3], cells[4] = fmt.Sprintf("%.1f", report.StarvedMinutes), fmt.Sprintf("%.1f", report.DeepMinutes)
	}
	if memory := report.Of[recommender.Memory]; memory.Measured {
		killed := 0
		for _, s := range t.Scores() {
			if s.OOMHours > 0 {
				killed++
			}
		}
		cells[5], cells[6] = percent(memory.FleetSlack), percent(memory.MedianSlack)
		cells[7], cells[8] = oomHours(report), percent(float64(killed)/float64(report.Series))
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// oomHours a container-day, beyond the request and, where there is one, beyond a limit beside it.
func oomHours(report backtest.Report) string {
	if report.Own {
		return fmt.Sprintf("%.4f (own limit: %.4f)", report.OOMHours, report.OwnOOMHours)
	}
	return fmt.Sprintf("%.4f", report.OOMHours)
}

func percent(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }
