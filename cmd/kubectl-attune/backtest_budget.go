package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/pflag"
)

// budgets are the most that a policy may cost, by flags of backtest. Each is judged on the figure that the JSON has under
// the name that the flag has. A budget that was not given bounds nothing.
type budgets [6]budget

// budget is the value of one flag.
type budget struct {
	most float64
	set  bool
}

// budgeted are the figures that have a budget, in the order of budgets.
var budgeted = [len(budgets{})]struct {
	// flag that has the most, help on it; what the figure is, in a sentence.
	flag, help, what string
	// part is true of fractions, which are at most 1.
	part bool
	// of a result; nil: what it is of was never measured.
	of func(r backtestResult) *float64
}{
	{flag: "max-starved-minutes-per-day", help: "Minutes a container-day with more CPU used than requested", what: "minutes a container-day with more CPU used than requested",
		of: func(r backtestResult) *float64 {
			return r.cpu(func(c *backtestCPU) *float64 { return &c.StarvedMinutesPerDay })
		}},
	{flag: "max-deep-minutes-per-day", help: "Minutes a container-day with more than twice the requested CPU used", what: "minutes a container-day with more than twice the requested CPU used",
		of: func(r backtestResult) *float64 {
			return r.cpu(func(c *backtestCPU) *float64 { return &c.DeepMinutesPerDay })
		}},
	{flag: "max-oom-hours-per-day", help: "Hours a container-day with memory beyond its limit", what: "hours a container-day with memory beyond its limit",
		of: func(r backtestResult) *float64 {
			return r.memory(func(m *backtestMemory) *float64 { return &m.OOMHoursPerDay })
		}},
	{flag: "max-resizes-per-day", help: "Resizes a container-day", what: "resizes a container-day",
		of: func(r backtestResult) *float64 { return &r.ResizesPerDay }},
	{flag: "max-cpu-slack", help: "Part of the requested CPU of all containers that is not used, 0 to 1", what: "is the part of the requested CPU that is not used", part: true,
		of: func(r backtestResult) *float64 { return r.cpu(func(c *backtestCPU) *float64 { return &c.FleetSlack }) }},
	{flag: "max-memory-slack", help: "Part of the requested memory of all containers that is not used, 0 to 1", what: "is the part of the requested memory that is not used", part: true,
		of: func(r backtestResult) *float64 {
			return r.memory(func(m *backtestMemory) *float64 { return &m.FleetSlack })
		}},
}

func (r backtestResult) cpu(of func(*backtestCPU) *float64) *float64 {
	if r.CPU == nil {
		return nil
	}
	return of(r.CPU)
}

func (r backtestResult) memory(of func(*backtestMemory) *float64) *float64 {
	if r.Memory == nil {
		return nil
	}
	return of(r.Memory)
}

// addFlags adds the flag of each budget.
func (b *budgets) addFlags(f *pflag.FlagSet) {
	for i, of := range budgeted {
		f.Var(&b[i], of.flag, "Finding where there is more: "+of.help)
	}
}

// String implements pflag.Value; empty: not given.
func (b *budget) String() string {
	if !b.set {
		return ""
	}
	return figure(b.most)
}

// Type implements pflag.Value.
func (b *budget) Type() string { return "number" }

// Set implements pflag.Value.
func (b *budget) Set(value string) error {
	most, err := strconv.ParseFloat(value, 64)
	if err != nil || !(most >= 0) || math.IsInf(most, 0) {
		return errors.New("a budget is a number from 0 on: write e.g. 0.5")
	}
	*b = budget{most, true}
	return nil
}

// check returns one sentence about a budget that says nothing.
func (b *budgets) check() error {
	for i, of := range budgeted {
		if of.part && b[i].set && b[i].most > 1 {
			return fmt.Errorf("--%s %s is more than all: slack is a part, give 0 to 1, e.g. 0.5 for 50 %%", of.flag, figure(b[i].most))
		}
	}
	return nil
}

// any reports whether there is a budget.
func (b *budgets) any() bool {
	for _, of := range b {
		if of.set {
			return true
		}
	}
	return false
}

// broken has a sentence for each budget that a result breaks. One that cannot be judged is an error: a CI job is not to
// pass because nothing was measured.
func (b *budgets) broken(r backtestResult) (sentences []string, err error) {
	for i, of := range budgeted {
		if !b[i].set {
			continue
		}
		found := of.of(r)
		switch {
		case found == nil:
			return nil, fmt.Errorf("--%s %s cannot be judged: the resource was never measured; leave it out, or give usage that has it", of.flag, figure(b[i].most))
		case *found > b[i].most:
			sentences = append(sentences, fmt.Sprintf("over budget: %s %s, and --%s allows %s", figure(*found), of.what, of.flag, figure(b[i].most)))
		}
	}
	return sentences, nil
}

// judged notes which budgets a result breaks; errFinding where it breaks any.
func (b *budgets) judged(env *environment, r backtestResult) error {
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
