package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// budgets are the most that a policy may cost, by flags of backtest. Each is judged on the figure that the JSON has under
// the name that the flag has. A budget that was not given (nil) bounds nothing.
type budgets [6]*float64

// budgeted are the figures that have a budget, in the order of budgets.
var budgeted = [len(budgets{})]struct {
	// flag that has the most, help on it; what the figure is, in a sentence.
	flag, help, what string
	// part is true of fractions, which are at most 1.
	part bool
	// of a result; false: the resource was never measured.
	of func(backtest.Report) (float64, bool)
}{
	{flag: "max-starved-minutes-per-day", help: "Minutes a container-day with more CPU used than requested", what: "minutes a container-day with more CPU used than requested",
		of: func(r backtest.Report) (float64, bool) { return r.StarvedMinutes, r.Of[recommender.CPU].Measured }},
	{flag: "max-deep-minutes-per-day", help: "Minutes a container-day with more than twice the requested CPU used", what: "minutes a container-day with more than twice the requested CPU used",
		of: func(r backtest.Report) (float64, bool) { return r.DeepMinutes, r.Of[recommender.CPU].Measured }},
	{flag: "max-oom-hours-per-day", help: "Hours a container-day with memory beyond its limit", what: "hours a container-day with memory beyond its limit",
		of: func(r backtest.Report) (float64, bool) { return r.OOMHours, r.Of[recommender.Memory].Measured }},
	{flag: "max-resizes-per-day", help: "Resizes a container-day", what: "resizes a container-day",
		of: func(r backtest.Report) (float64, bool) { return r.Resizes, true }},
	{flag: "max-cpu-slack", help: "Part of the requested CPU of all containers that is not used, 0 to 1", what: "is the part of the requested CPU that is not used", part: true,
		of: func(r backtest.Report) (float64, bool) {
			return r.Of[recommender.CPU].FleetSlack, r.Of[recommender.CPU].Measured
		}},
	{flag: "max-memory-slack", help: "Part of the requested memory of all containers that is not used, 0 to 1", what: "is the part of the requested memory that is not used", part: true,
		of: func(r backtest.Report) (float64, bool) {
			return r.Of[recommender.Memory].FleetSlack, r.Of[recommender.Memory].Measured
		}},
}

// addFlags adds the flag of each budget.
func (b *budgets) addFlags(f *pflag.FlagSet) {
	for i, of := range budgeted {
		f.Func(of.flag, "Finding above this `number`: "+of.help, func(value string) error {
			most, err := strconv.ParseFloat(value, 64)
			if err != nil || !(most >= 0) || math.IsInf(most, 0) {
				return errors.New("a budget is a number from 0 on: write e.g. 0.5")
			}
			b[i] = &most
			return nil
		})
	}
}

// check returns one sentence about a budget that says nothing.
func (b *budgets) check() error {
	for i, of := range budgeted {
		if of.part && b[i] != nil && *b[i] > 1 {
			return fmt.Errorf("--%s %s is more than all: slack is a part, give 0 to 1, e.g. 0.5 for 50 %%", of.flag, figure(*b[i]))
		}
	}
	return nil
}

// any reports whether there is a budget.
func (b *budgets) any() bool {
	return slices.ContainsFunc(b[:], func(most *float64) bool { return most != nil })
}

// broken has a sentence for each budget that a result breaks. One that cannot be judged is an error: a CI job is not to
// pass because nothing was measured.
func (b *budgets) broken(r backtest.Report) (sentences []string, err error) {
	for i, of := range budgeted {
		if b[i] == nil {
			continue
		}
		found, measured := of.of(r)
		found = rounded(found)
		switch {
		case !measured:
			return nil, fmt.Errorf("--%s %s cannot be judged: the resource was never measured; leave it out, or give usage that has it", of.flag, figure(*b[i]))
		case found > *b[i]:
			sentences = append(sentences, fmt.Sprintf("over budget: %s %s, and --%s allows %s", figure(found), of.what, of.flag, figure(*b[i])))
		}
	}
	return sentences, nil
}

// judged notes which budgets a result breaks; errFinding where it breaks any.
func (b *budgets) judged(env *environment, r backtest.Report) error {
	sentences, err := b.broken(r)
	for _, sentence := range sentences {
		env.note("%s", sentence)
	}
	if err == nil && len(sentences) > 0 {
		err = errFinding
	}
	return err
}

// figure as it is in the JSON.
func figure(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
