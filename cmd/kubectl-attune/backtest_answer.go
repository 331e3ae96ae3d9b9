package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/internal/answers"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// backtestAnswer is the answer of backtest.
type backtestAnswer struct {
	backtestResult
	// Peers are the results of other formulas; absent without --peers.
	Peers []backtestPeer `json:"peers,omitempty"`
}

// backtestPeer is the result of one formula.
type backtestPeer struct {
	Name string `json:"name"`
	backtestResult
}

// backtestResult is the result of one strategy. Slacks are fractions of the requests. A resource that was never
// measured, or that the formula does not size, is null.
type backtestResult struct {
	Series        int             `json:"series"`
	ContainerDays float64         `json:"containerDays"`
	CPU           *backtestCPU    `json:"cpu"`
	Memory        *backtestMemory `json:"memory"`
	ResizesPerDay float64         `json:"resizesPerDay"`
}

type backtestCPU struct {
	backtestSlack
	StarvedMinutesPerDay float64 `json:"starvedMinutesPerDay"`
	DeepMinutesPerDay    float64 `json:"deepMinutesPerDay"`
}

type backtestMemory struct {
	backtestSlack
	OOMHoursPerDay float64 `json:"oomHoursPerDay"`
	// OwnLimitOOMHoursPerDay counts usage above a limit that differs from the request; absent if the limit is the
	// request.
	OwnLimitOOMHoursPerDay *float64 `json:"ownLimitOomHoursPerDay,omitempty"`
}

type backtestSlack struct {
	FleetSlack  float64 `json:"fleetSlack"`
	MedianSlack float64 `json:"medianSlack"`
}

// sweepAnswer is the answer of backtest --sweep, in the order of the flag.
type sweepAnswer struct {
	Sweep []sweptRisk `json:"sweep"`
}

// sweptRisk is the result at one risk.
type sweptRisk struct {
	Risk float64 `json:"risk"`
	backtestResult
}

func newSweepAnswer(of risks, tallies []*backtest.Tally) (answer sweepAnswer) {
	for i, risk := range of {
		answer.Sweep = append(answer.Sweep, sweptRisk{Risk: float64(risk), backtestResult: resultOf(tallies[i].Report())})
	}
	return answer
}

// Human writes one row for each risk.
func (a sweepAnswer) Human(wide bool) (string, error) {
	t := backtestTable("RISK")
	for _, s := range a.Sweep {
		t.Add(s.row(strconv.FormatFloat(s.Risk, 'g', -1, 64))...)
	}
	return backtestText(t, wide, a.Sweep[0].backtestResult)
}

// newBacktestAnswer returns the answer for the tallies. The first one is the policy, the others are peers.
func newBacktestAnswer(tallies []*backtest.Tally) backtestAnswer {
	answer := backtestAnswer{backtestResult: resultOf(tallies[0].Report())}
	for _, t := range tallies[1:] {
		report := t.Report()
		answer.Peers = append(answer.Peers, backtestPeer{Name: report.Name, backtestResult: resultOf(report)})
	}
	return answer
}

func resultOf(r backtest.Report) backtestResult {
	result := backtestResult{Series: r.Series, ContainerDays: rounded(r.ContainerDays), ResizesPerDay: rounded(r.Resizes)}
	if of := r.Of[recommender.CPU]; of.Measured {
		result.CPU = &backtestCPU{slackOf(of), rounded(r.StarvedMinutes), rounded(r.DeepMinutes)}
	}
	if of := r.Of[recommender.Memory]; of.Measured {
		result.Memory = &backtestMemory{backtestSlack: slackOf(of), OOMHoursPerDay: rounded(r.OOMHours)}
		if r.Own {
			result.Memory.OwnLimitOOMHoursPerDay = new(rounded(r.OwnOOMHours))
		}
	}
	return result
}

func slackOf(r backtest.ResourceReport) backtestSlack {
	return backtestSlack{rounded(r.FleetSlack), rounded(r.MedianSlack)}
}

// rounded rounds to a millionth, because finer digits differ between processors.
func rounded(x float64) float64 { return math.Round(x*1e6) / 1e6 }

// Human writes one row for the policy and one for each peer.
func (a backtestAnswer) Human(wide bool) (string, error) {
	t := backtestTable("NAME")
	t.Add(a.row("attune")...)
	for _, p := range a.Peers {
		t.Add(p.row(p.Name)...)
	}
	return backtestText(t, wide, a.backtestResult)
}

// backtestTable returns an empty table of results with the header of its first column.
func backtestTable(of string) answers.Table {
	return answers.Table{
		Header:   []string{of, "CPU SLACK", "STARVED MIN/DAY", "MEMORY SLACK", "OOM H/DAY", "RESIZES/DAY", "MEDIAN CPU", "DEEP MIN/DAY", "MEDIAN MEMORY"},
		OnlyWide: []string{"MEDIAN CPU", "DEEP MIN/DAY", "MEDIAN MEMORY"},
	}
}

// backtestText formats a table and a line about its data.
func backtestText(t answers.Table, wide bool, r backtestResult) (string, error) {
	return output.Text(t, wide) + fmt.Sprintf("\n%d containers, %.0f container-days. Slack is the unused part of the requests. Starved is time with CPU\n"+
		"usage above the request, deep above twice the request. OOM h are hours with memory usage above the limit.\n", r.Series, r.ContainerDays), nil
}

func (r backtestResult) row(name string) []string {
	cpu, memory := make([]string, 4), make([]string, 3)
	if c := r.CPU; c != nil {
		cpu = []string{percent(c.FleetSlack), fmt.Sprintf("%.1f", c.StarvedMinutesPerDay), percent(c.MedianSlack), fmt.Sprintf("%.1f", c.DeepMinutesPerDay)}
	}
	if m := r.Memory; m != nil {
		memory = []string{percent(m.FleetSlack), fmt.Sprintf("%.4f", m.OOMHoursPerDay), percent(m.MedianSlack)}
		if own := m.OwnLimitOOMHoursPerDay; own != nil {
			memory[1] += fmt.Sprintf(" (own limit %.4f)", *own)
		}
	}
	return []string{name, cpu[0], cpu[1], memory[0], memory[1], fmt.Sprintf("%.2f", r.ResizesPerDay), cpu[2], cpu[3], memory[2]}
}

func percent(part float64) string { return fmt.Sprintf("%.1f%%", 100*part) }

// budgets are limits on the results of a policy, set by flags of backtest. Each flag has the name of its figure in the
// JSON. nil means no limit.
type budgets [6]*float64

// budgeted are the figures with a budget, in the order of budgets.
var budgeted = [len(budgets{})]struct {
	// flag sets the limit, and help describes it. what describes the figure in a sentence.
	flag, help, what string
	// part is true for fractions, which are at most 1.
	part bool
	// of returns the figure of a result; false if the resource was never measured.
	of func(backtest.Report) (float64, bool)
}{
	{flag: "max-starved-minutes-per-day", help: "minutes per container-day with CPU usage above the request", what: "minutes per container-day with CPU usage above the request",
		of: func(r backtest.Report) (float64, bool) { return r.StarvedMinutes, r.Of[recommender.CPU].Measured }},
	{flag: "max-deep-minutes-per-day", help: "minutes per container-day with CPU usage above twice the request", what: "minutes per container-day with CPU usage above twice the request",
		of: func(r backtest.Report) (float64, bool) { return r.DeepMinutes, r.Of[recommender.CPU].Measured }},
	{flag: "max-oom-hours-per-day", help: "hours per container-day with memory usage above the limit", what: "hours per container-day with memory usage above the limit",
		of: func(r backtest.Report) (float64, bool) { return r.OOMHours, r.Of[recommender.Memory].Measured }},
	{flag: "max-resizes-per-day", help: "resizes per container-day", what: "resizes per container-day",
		of: func(r backtest.Report) (float64, bool) { return r.Resizes, true }},
	{flag: "max-cpu-slack", help: "unused part of the CPU requests of all containers, 0 to 1", what: "of the requested CPU is not used", part: true,
		of: func(r backtest.Report) (float64, bool) {
			return r.Of[recommender.CPU].FleetSlack, r.Of[recommender.CPU].Measured
		}},
	{flag: "max-memory-slack", help: "unused part of the memory requests of all containers, 0 to 1", what: "of the requested memory is not used", part: true,
		of: func(r backtest.Report) (float64, bool) {
			return r.Of[recommender.Memory].FleetSlack, r.Of[recommender.Memory].Measured
		}},
}

// addFlags adds the flag of each budget.
func (b *budgets) addFlags(f *pflag.FlagSet) {
	for i, of := range budgeted {
		f.Func(of.flag, "Exit with code 2 above this `number`: "+of.help, func(value string) error {
			most, err := strconv.ParseFloat(value, 64)
			if err != nil || !(most >= 0) || math.IsInf(most, 0) {
				return errors.New("must be a number of 0 or more, e.g. 0.5")
			}
			b[i] = &most
			return nil
		})
	}
}

// check returns an error about a budget that can never be exceeded.
func (b *budgets) check() error {
	for i, of := range budgeted {
		if of.part && b[i] != nil && *b[i] > 1 {
			return fmt.Errorf("--%s %s is above 1: slack is a fraction from 0 to 1, e.g. 0.5 for 50 %%", of.flag, figure(*b[i]))
		}
	}
	return nil
}

// any reports whether a budget is set.
func (b *budgets) any() bool {
	return slices.ContainsFunc(b[:], func(most *float64) bool { return most != nil })
}

// broken returns a sentence for each exceeded budget. A budget without measured usage is an error, so that a CI job
// does not pass without data.
func (b *budgets) broken(r backtest.Report) (sentences []string, err error) {
	for i, of := range budgeted {
		if b[i] == nil {
			continue
		}
		found, measured := of.of(r)
		found = rounded(found)
		switch {
		case !measured:
			return nil, fmt.Errorf("--%s %s cannot be checked: the usage has no samples of this resource; remove the flag, or use other usage", of.flag, figure(*b[i]))
		case found > *b[i]:
			sentences = append(sentences, fmt.Sprintf("budget exceeded: %s %s; --%s allows %s", figure(found), of.what, of.flag, figure(*b[i])))
		}
	}
	return sentences, nil
}

// printExceededBudgets prints the exceeded budgets. It returns errFinding if there are any.
func (b *budgets) printExceededBudgets(env *environment, r backtest.Report) error {
	sentences, err := b.broken(r)
	for _, sentence := range sentences {
		env.printNote("%s", sentence)
	}
	if err == nil && len(sentences) > 0 {
		err = errFinding
	}
	return err
}

// figure formats a number as the JSON does.
func figure(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
