package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender/adaptive"
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
	// sweep has the risks at which the estimator Adaptive is judged in the place of the policy; empty: it is not.
	sweep risks
	// budgets at which a CI job stops.
	budgets budgets
}

// risks is the value of --sweep, such as risk=0.1,1,10.
type risks []adaptive.Risk

// String implements pflag.Value.
func (r *risks) String() string {
	if len(*r) == 0 {
		return ""
	}
	texts := make([]string, len(*r))
	for i, risk := range *r {
		texts[i] = strconv.FormatFloat(float64(risk), 'g', -1, 64)
	}
	return "risk=" + strings.Join(texts, ",")
}

// Type implements pflag.Value.
func (r *risks) Type() string { return "risks" }

// Set implements pflag.Value.
func (r *risks) Set(value string) error {
	list, named := strings.CutPrefix(value, "risk=")
	if !named {
		return fmt.Errorf("%q names no knob that can be swept: write e.g. risk=0.1,1,10", value)
	}
	*r = nil
	for _, text := range strings.Split(list, ",") {
		risk, err := strconv.ParseFloat(text, 64)
		if err != nil || !(risk > 0) || math.IsInf(risk, 0) {
			return fmt.Errorf("risk %q is not a positive number: write e.g. risk=0.1,1,10", text)
		}
		*r = append(*r, adaptive.Risk(risk))
	}
	return nil
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
			"A finding (exit code 2) is a budget (--max-…) that the policy breaks; without one, whatever the answer is, it is an answer.",
		Example: "  kubectl attune backtest --trace trace.csv.gz --peers\n" +
			"  kubectl attune backtest --trace trace.csv.gz --policy policy.yaml -o json\n" +
			"  kubectl attune backtest --trace trace.csv.gz --policy policy.yaml --max-oom-hours-per-day 0.01 --max-starved-minutes-per-day 1",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runBacktest(env, flags) },
	}
	f := command.Flags()
	f.StringVar(&flags.trace, "trace", "", "CSV file of usage samples, gzip by name (.gz): series_id,timestamp,cpu_cores,memory_bytes, the rows of a series next to each other")
	f.StringVar(&flags.policy, "policy", "", "YAML file with an AttunePolicy, and the defaults under it where there are any (default: the built-in settings)")
	f.DurationVar(&flags.rules.Warmup, "warmup", 24*time.Hour, "How much of each series is history only, and not judged")
	f.DurationVar(&flags.rules.Cadence, "cadence", time.Hour, "How often a size is decided")
	f.Var(&flags.sweep, "sweep", "Judge the estimator of strategy Adaptive at several risks, e.g. risk=0.1,1,10: 1 is Medium, greater accepts more")
	f.BoolVar(&flags.peers, "peers", false, "Judge the formulas of VPA, KRR, Autopilot's window and others on the same trace")
	flags.budgets.addFlags(f)
	return command
}

// check returns one sentence about flags that cannot work.
func (f *backtestFlags) check() error {
	switch {
	case f.trace == "":
		return errors.New("which trace? give a file with --trace trace.csv.gz")
	case len(f.sweep) > 0 && (f.policy != "" || f.peers):
		return errors.New("--sweep judges the estimator alone: leave --policy and --peers out")
	case len(f.sweep) > 0 && f.budgets.any():
		return errors.New("budgets (--max-…) are judged on a policy, and --sweep judges the estimator alone: leave one of them out")
	case f.rules.Warmup < 0:
		return fmt.Errorf("--warmup %s is negative: give 0s or more, e.g. 24h", f.rules.Warmup)
	case f.rules.Cadence < time.Minute:
		return fmt.Errorf("--cadence %s is too short: give 1m or more, e.g. 1h", f.rules.Cadence)
	}
	return f.budgets.check()
}

// runBacktest replays a trace series by series and prints what came of it.
func runBacktest(env *environment, flags backtestFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	strategies, err := flags.strategies()
	if err != nil {
		return err
	}
	tallies := make([]*backtest.Tally, len(strategies))
	for i, s := range strategies {
		tallies[i] = backtest.NewTally(s.Name)
	}
	var longest time.Duration
	report, err := csvfile.Each(flags.trace, func(of csvfile.Series) error {
		series := of.Replayed()
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
	if tallies[0].Report().Series == 0 {
		return fmt.Errorf("%s: no series is long enough: the longest is %s, and %s of each are its warm-up; give a shorter --warmup", flags.trace, longest, flags.rules.Warmup)
	}
	if len(flags.sweep) > 0 {
		return env.print(newSweepAnswer(flags.sweep, tallies))
	}
	answer := newBacktestAnswer(tallies)
	if err := env.print(answer); err != nil {
		return err
	}
	return flags.budgets.judged(env, answer.backtestResult)
}

// strategies are the members of a sweep, or the policy and, where they are asked for, its peers.
func (f *backtestFlags) strategies() (all []backtest.Strategy, err error) {
	for _, risk := range f.sweep {
		all = append(all, backtest.Adaptive(risk))
	}
	if len(all) > 0 {
		return all, nil
	}
	settings, err := backtestSettings(f.policy)
	if err != nil {
		return nil, err
	}
	all = append(all, backtest.Workload("attune", backtest.Alone(settings.Recommender)))
	if f.peers {
		all = append(all, backtest.Peers()...)
	}
	return all, nil
}

// backtestSettings are those of a policy file, or the built-in ones.
func backtestSettings(path string) (policy.Settings, error) {
	if path == "" {
		return policy.Defaults()
	}
	return readSettings(path)
}
