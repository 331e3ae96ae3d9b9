package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage/csvfile"
)

// backtestFlags are the flags of backtest.
type backtestFlags struct {
	// trace and policy are paths of files; without a policy the built-in settings are judged.
	trace, policy string
	// rules of the replay.
	rules backtest.Rules
	// peers: the formulas of others are judged on the same trace.
	peers bool
}

// newBacktest makes the verb backtest.
func newBacktest(env *environment) *cobra.Command {
	flags := backtestFlags{}
	command := &cobra.Command{
		Use:   "backtest --trace trace.csv.gz [--policy policy.yaml]",
		Short: "Judge a policy on recorded usage, without a cluster",
		Long: "Judge a policy on recorded usage, without a cluster: what it would have reserved without need (slack), where CPU would have been\n" +
			"short (starved) and memory beyond its limit (OOM hours), and how often it would have resized. Each container is judged alone, by\n" +
			"its target, with a dead band of 10 %. --peers judges the published formulas of others on the same trace.\n" +
			"There is no finding: whatever the answer is, it is an answer.",
		Example: "  kubectl attune backtest --trace trace.csv.gz --peers\n  kubectl attune backtest --trace trace.csv.gz --policy policy.yaml -o json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runBacktest(env, flags) },
	}
	f := command.Flags()
	f.StringVar(&flags.trace, "trace", "", "CSV file of usage samples, gzip by name (.gz): series_id,timestamp,cpu_cores,memory_bytes, the rows of a series next to each other")
	f.StringVar(&flags.policy, "policy", "", "YAML file with an AttunePolicy, and the defaults under it where there are any (default: the built-in settings)")
	f.DurationVar(&flags.rules.Warmup, "warmup", 24*time.Hour, "How much of each series is history only, and not judged")
	f.DurationVar(&flags.rules.Cadence, "cadence", time.Hour, "How often a size is decided")
	f.BoolVar(&flags.peers, "peers", false, "Judge the formulas of VPA, KRR, Autopilot's window and others on the same trace")
	return command
}

// check returns one sentence about flags that cannot work.
func (f *backtestFlags) check() error {
	switch {
	case f.trace == "":
		return errors.New("which trace? give a file with --trace trace.csv.gz")
	case f.rules.Warmup < 0:
		return fmt.Errorf("--warmup %s is negative: give 0s or more, e.g. 24h", f.rules.Warmup)
	case f.rules.Cadence < time.Minute:
		return fmt.Errorf("--cadence %s is too short: give 1m or more, e.g. 1h", f.rules.Cadence)
	}
	return nil
}

// runBacktest replays a trace series by series and prints what came of it.
func runBacktest(env *environment, flags backtestFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	settings, err := backtestSettings(flags.policy)
	if err != nil {
		return err
	}
	strategies := []backtest.Strategy{backtest.Workload("attune", backtest.Alone(settings.Recommender))}
	if flags.peers {
		strategies = append(strategies, backtest.Peers()...)
	}
	tallies := make([]*backtest.Tally, len(strategies))
	for i, s := range strategies {
		tallies[i] = backtest.NewTally(s.Name)
	}
	var longest time.Duration
	report, err := csvfile.Each(flags.trace, func(of csvfile.Series) error {
		series := seriesOf(of)
		longest = max(longest, time.Duration(of.Samples[len(of.Samples)-1].At-of.Samples[0].At)*time.Millisecond)
		for i, s := range strategies {
			tallies[i].Add(backtest.Replay(series, s, flags.rules))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if told := oddities(report); told != "" {
		env.note("%s: %d rows, %s", flags.trace, report.Rows, told)
	}
	if len(tallies[0].Scores()) == 0 {
		return fmt.Errorf("%s: no series is long enough: the longest is %s, and %s of each are its warm-up; give a shorter --warmup", flags.trace, longest, flags.rules.Warmup)
	}
	return env.print(newBacktestAnswer(tallies))
}

// backtestSettings are those of a policy file, or the built-in ones.
func backtestSettings(path string) (policy.Settings, error) {
	if path == "" {
		anyWorkload := v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Name: "any"}
		return policy.Resolve(nil, nil, &v1alpha1.AttunePolicy{Spec: v1alpha1.AttunePolicySpec{TargetRef: anyWorkload}})
	}
	return readSettings(path)
}

// seriesOf a file as the replay takes it.
func seriesOf(of csvfile.Series) backtest.Series {
	series := backtest.Series{ID: of.ID, Samples: make([]backtest.Sample, len(of.Samples))}
	for i, s := range of.Samples {
		series.Samples[i] = backtest.Sample{At: s.At, Used: [2]float64{recommender.CPU: s.CPUCores, recommender.Memory: s.MemoryBytes}}
	}
	return series
}

// backtestAnswer is the answer of backtest.
type backtestAnswer struct {
	backtestResult
	// Peers are the formulas of others; absent where they were not asked for.
	Peers []backtestPeer `json:"peers,omitempty"`
}

// backtestPeer is the result of one formula.
type backtestPeer struct {
	Name string `json:"name"`
	backtestResult
}

// backtestResult is what came of one strategy. Slacks are fractions of what was requested; a resource that was never
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
}

type backtestSlack struct {
	FleetSlack  float64 `json:"fleetSlack"`
	MedianSlack float64 `json:"medianSlack"`
}

// newBacktestAnswer has the first tally as the policy's, and the others as peers.
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
		result.Memory = &backtestMemory{slackOf(of), rounded(r.OOMHours)}
	}
	return result
}

func slackOf(r backtest.ResourceReport) backtestSlack {
	return backtestSlack{rounded(r.FleetSlack), rounded(r.MedianSlack)}
}

// rounded to a millionth: finer digits differ between processors.
func rounded(x float64) float64 { return math.Round(x*1e6) / 1e6 }

// Human writes one row for the policy and one for each peer.
func (a backtestAnswer) Human(w io.Writer, wide bool) error {
	t := table{header: []string{"NAME", "CPU SLACK", "STARVED MIN/DAY", "MEMORY SLACK", "OOM H/DAY", "RESIZES/DAY"}}
	if wide {
		t.header = append(t.header, "MEDIAN CPU", "DEEP MIN/DAY", "MEDIAN MEMORY")
	}
	t.add(a.row("attune", wide)...)
	for _, p := range a.Peers {
		t.add(p.row(p.Name, wide)...)
	}
	if err := t.write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d containers, %.0f container-days. Slack is the part of what is requested that is not used.\n", a.Series, a.ContainerDays)
	return err
}

func (r backtestResult) row(name string, wide bool) []string {
	cpu, memory := make([]string, 4), make([]string, 3)
	if c := r.CPU; c != nil {
		cpu = []string{percent(c.FleetSlack), fmt.Sprintf("%.1f", c.StarvedMinutesPerDay), percent(c.MedianSlack), fmt.Sprintf("%.1f", c.DeepMinutesPerDay)}
	}
	if m := r.Memory; m != nil {
		memory = []string{percent(m.FleetSlack), fmt.Sprintf("%.4f", m.OOMHoursPerDay), percent(m.MedianSlack)}
	}
	row := []string{name, cpu[0], cpu[1], memory[0], memory[1], fmt.Sprintf("%.2f", r.ResizesPerDay)}
	if wide {
		row = append(row, cpu[2], cpu[3], memory[2])
	}
	return row
}

func percent(part float64) string { return fmt.Sprintf("%.1f%%", 100*part) }
