package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/cmd/kubectl-attune/terminal"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage"
	"attune.io/attune/usage/csvfile"
)

// backtestFlags are the flags of backtest.
type backtestFlags struct {
	// trace and policy are paths of files. Without a policy, backtest judges the built-in settings.
	trace, policy string
	node          input.Node // the node size that bounds the samples of the trace
	pool          input.Pool // series of the trace that are replicas
	// rules are the rules of the replay.
	rules backtest.Rules
	// peers adds other published formulas on the same usage.
	peers bool
	// sweep has the risks for the estimator Adaptive, instead of the policy; empty: no sweep.
	sweep risks
	// from is the source of the cluster's usage, last the period to read, address the URL of a Prometheus server. If
	// from is empty, the usage comes from the trace.
	from, address string
	last          input.Period
	// html is true if the answer is a page (-o html).
	html bool
	// budgets are the limits at which a CI job stops.
	budgets budgets
	// hpa asks what an HPA would have done, instead of replaying the policy.
	hpa input.HPA
}

// risks is the value of --sweep, such as risk=0.1,1,10.
type risks []float64

func (r *risks) parse(value string) error {
	list, named := strings.CutPrefix(value, "risk=")
	if !named {
		return fmt.Errorf("%q is not a list of risks: write e.g. risk=0.1,1,10", value)
	}
	*r = nil
	for _, text := range strings.Split(list, ",") {
		risk, err := strconv.ParseFloat(text, 64)
		if err != nil || !(risk > 0) || math.IsInf(risk, 0) {
			return fmt.Errorf("risk %q is not a positive number: write e.g. risk=0.1,1,10", text)
		}
		*r = append(*r, risk)
	}
	return nil
}

// usualBacktest returns the default flags.
func usualBacktest() backtestFlags {
	return backtestFlags{last: input.Period{Duration: defaultLast}, rules: backtest.Rules{Warmup: 24 * time.Hour, Cadence: time.Hour}}
}

// newBacktest returns the command backtest.
func newBacktest(env *environment) *cobra.Command {
	flags := usualBacktest()
	command := &cobra.Command{
		Use:   "backtest (--trace trace.csv.gz | --from embedded|prometheus [POLICY...]) [--policy policy.yaml | --hpa live]",
		Short: "Replay recorded usage, and show what a policy would have requested, starved and killed",
		Long: "Replay recorded usage, and show what a policy would have done: unused requests (slack), time with CPU usage above the\n" +
			"request (starved), hours with memory usage above the limit (OOM hours), and resizes. Each container is replayed by itself,\n" +
			"by its target, with a dead band of 10 %.\n\n" +
			"The usage comes from a file (--trace), without a cluster, or from the workloads of policies (--from): the named policies,\n" +
			"otherwise the policies of -n, -A and -l. --policy replaces their settings with a file. --peers also replays the published\n" +
			"formulas of other products on the same usage.\n\n" +
			"--hpa instead shows what the HorizontalPodAutoscalers would have done: how many replicas they would have asked for at each\n" +
			"step with the present requests and with the recommended ones.\n\n" +
			"-o html writes a page with charts, and can combine --sweep and --peers: kubectl attune backtest … -o html > backtest.html\n" +
			"The exit code is 2 if the policy exceeds a budget (--max-…).",
		Example: "  kubectl attune backtest --trace trace.csv.gz --peers\n" +
			"  kubectl attune backtest --trace trace.csv.gz --policy policy.yaml -o json\n" +
			"  kubectl attune backtest --trace trace.csv.gz --policy policy.yaml --max-oom-hours-per-day 0.01 --max-starved-minutes-per-day 1\n" +
			"  kubectl attune backtest --from prometheus --last 14d -n shop api\n" +
			"  kubectl attune backtest --from prometheus --hpa live -n shop api\n" +
			"  kubectl attune backtest --trace pods.csv.gz --hpa min=2,max=10,target=70,request=1,instead=462m",
		RunE: func(cmd *cobra.Command, policies []string) error {
			return runBacktest(cmd.Context(), env, flags, policies)
		},
	}
	f := command.Flags()
	f.StringVar(&flags.trace, "trace", "", "CSV file with usage samples, gzip if its name ends in .gz: series_id,timestamp,cpu_cores,memory_bytes; the rows of a series must be adjacent")
	flags.node.AddTo(f)
	flags.pool.AddTo(f)
	f.StringVar(&flags.from, "from", "", "Usage of the cluster. One of: embedded (stored in AttuneRecommendations), prometheus (queried from the policies' server)")
	f.Var(&flags.last, "last", "Period of the cluster's usage to replay, e.g. 14d or 36h")
	f.StringVar(&flags.address, "address", "", "Prometheus server to use with --from prometheus, instead of the policies' own; a Service is reached through one of its pods, any other address from this machine")
	f.StringVar(&flags.policy, "policy", "", "YAML file with an AttunePolicy or AttuneClusterPolicy, optionally followed by defaults (default: the built-in settings; with --from, the policies' own)")
	f.DurationVar(&flags.rules.Warmup, "warmup", flags.rules.Warmup, "Duration at the start of each series that is only history, and not scored")
	f.DurationVar(&flags.rules.Cadence, "cadence", flags.rules.Cadence, "Interval between two recommendations")
	f.Func("sweep", "Replay strategy Adaptive at several `risks`, e.g. risk=0.1,1,10; 1 is Medium, a higher risk accepts more shortage", flags.sweep.parse)
	f.BoolVar(&flags.peers, "peers", false, "Also replay the formulas of VPA, KRR, Autopilot and other products on the same usage")
	f.Var(&flags.hpa, "hpa", "Show what HPAs would have done. With --from: live[,tolerance=0.1]. With --trace, whose series are the pods: min=2,max=10,target=70,request=1,instead=462m[,resource=cpu][,tolerance=0.1]")
	flags.budgets.addFlags(f)
	return command
}

// check returns an error with one sentence about flags that cannot work.
func (f *backtestFlags) check(policies []string) error {
	if err := f.checkFrom(policies); err != nil {
		return err
	}
	switch {
	case f.hpa.Given:
		return f.checkHPA()
	case !f.policyJudged() && (f.policy != "" || f.peers):
		return errors.New("--sweep cannot be combined with --policy or --peers, except with -o html")
	case !f.policyJudged() && f.budgets.any():
		return errors.New("--sweep cannot be combined with budgets (--max-…), except with -o html")
	case f.rules.Warmup < 0:
		return fmt.Errorf("--warmup %s is negative: use 0s or more, e.g. 24h", f.rules.Warmup)
	case f.rules.Cadence < time.Minute:
		return fmt.Errorf("--cadence %s is too short: use 1m or more, e.g. 1h", f.rules.Cadence)
	}
	return f.budgets.check()
}

// runBacktest replays recorded usage container by container and prints the result.
func runBacktest(ctx context.Context, env *environment, flags backtestFlags, policies []string) error {
	flags.html = env.format == formatHTML
	if err := flags.check(policies); err != nil {
		return err
	}
	if flags.hpa.Given {
		return flags.runHPA(ctx, env, policies)
	}
	usage, err := flags.usage(ctx, env, policies)
	if err != nil {
		return err
	}
	shown := terminal.NewProgress(env.terminal, env.now)
	defer shown.Done()
	found, err := flags.play(ctx, usage, shown)
	if err != nil {
		return err
	}
	if hint := replicasHint(found.series); hint != "" && flags.from == "" && !flags.pool.Given() {
		env.printNote("%s: %s", usage.name(), hint)
	}
	if flags.html {
		return flags.writePage(ctx, env, usage, found, shown)
	}
	shown.Done()
	if len(flags.sweep) > 0 {
		return env.print(newSweepAnswer(flags.sweep, found.tallies))
	}
	if err := env.print(newBacktestAnswer(found.tallies)); err != nil {
		return err
	}
	return flags.budgets.printExceededBudgets(env, found.tallies[0].Report())
}

// usage returns the usage to replay.
func (f *backtestFlags) usage(ctx context.Context, env *environment, policies []string) (recorded, error) {
	switch {
	case f.from != "" && f.node.Given:
		return nil, errors.New("--node cannot be combined with --from: remove --node, or use --trace")
	case f.from != "" && f.pool.Given():
		return nil, errors.New("--pool cannot be combined with --from, where replicas are one series: remove --pool")
	case f.from != "":
		return newLiveUsage(ctx, env, *f, policies)
	}
	trace := traceFile{env: env, path: f.trace, bounds: f.node.Bounds(), pool: f.pool}
	if !f.policyJudged() {
		return trace, nil
	}
	settings, err := policy.Defaults(v1alpha1.StrategyWorkload)
	if f.policy != "" {
		settings, err = readSettings(env, f.policy)
	}
	trace.settings = settings
	return trace, err
}

// policyJudged reports whether the policy is judged. A sweep replaces it, except in a page, which shows both.
func (f *backtestFlags) policyJudged() bool { return len(f.sweep) == 0 || f.html }

// played is the result of a replay.
type played struct {
	// tallies has one tally for each contender, with a score for each series.
	tallies []*backtest.Tally
	series  []string
	// promises compares the promises of the sweep with the outcome.
	promises backtest.Reliability
}

// play replays all usage. It keeps only the scores and the name of each container.
func (f *backtestFlags) play(ctx context.Context, usage recorded, shown *terminal.Progress) (*played, error) {
	found := &played{}
	contenders, err := f.contenders(&found.promises)
	if err != nil {
		return nil, err
	}
	for _, c := range contenders {
		found.tallies = append(found.tallies, backtest.NewTally(c.name))
	}
	var longest time.Duration
	err = usage.each(ctx, func(string) bool { return true }, func(of container) error {
		shown.At(of.part, of.ID)
		longest = max(longest, time.Duration(of.Samples[len(of.Samples)-1].At-of.Samples[0].At)*time.Millisecond)
		found.series = append(found.series, of.ID)
		for i, c := range contenders {
			found.tallies[i].Add(backtest.Replay(of.Series, c.strategy(of), f.rules))
		}
		return ctx.Err()
	})
	if err == nil && found.tallies[0].Report().Series == 0 {
		err = tooShort{usage.name(), longest, f.rules.Warmup, replicasHint(found.series)}
	}
	return found, err
}

// contender is a named strategy. strategy creates it for a container.
type contender struct {
	name     string
	strategy func(container) backtest.Strategy
}

// unchanging returns a contender with the same strategy for every container.
func unchanging(s backtest.Strategy) contender {
	return contender{s.Name, func(container) backtest.Strategy { return s }}
}

// Names of the contenders that are not peers, and of one peer.
const (
	policyName  = "attune"
	currentName = "current"
	maximumName = "static-max1.2"
)

// contenders returns the strategies to judge, the policy first. With --from it adds the present requests of the
// templates, and with --peers the peers. The members of a sweep (strategy Adaptive with the built-in settings) come
// last and record their promises.
func (f *backtestFlags) contenders(promises *backtest.Reliability) (all []contender, err error) {
	if f.policyJudged() {
		all = append(all, contender{policyName, f.judgedPolicy})
		if f.from != "" {
			all = append(all, contender{currentName, func(of container) backtest.Strategy { return backtest.Fixed(currentName, of.current) }})
		}
		for _, peer := range backtest.Peers() {
			if f.peers || f.html && peer.Name == maximumName {
				all = append(all, unchanging(peer))
			}
		}
	}
	settings, err := policy.Defaults(v1alpha1.StrategyAdaptive)
	for _, risk := range f.sweep {
		all = append(all, unchanging(backtest.Promising(backtest.Adaptive(risk, f.perContainer(settings.Recommender)), promises)))
	}
	return all, err
}

// judgedPolicy returns the strategy with the settings of a container's policy.
func (f *backtestFlags) judgedPolicy(of container) backtest.Strategy {
	return backtest.Shipped(policyName, f.perContainer(of.settings))
}

// perContainer returns settings for judging each container by itself. Sizes change no more often than the replay decides.
func (f *backtestFlags) perContainer(settings recommender.Settings) recommender.Settings {
	perContainer := backtest.Alone(settings)
	perContainer.Adaptive.Cadence = max(perContainer.Adaptive.Cadence, f.rules.Cadence)
	return perContainer
}

// container is one series to replay, with the settings for it.
type container struct {
	backtest.Series
	// settings are the settings of the judged policy.
	settings recommender.Settings
	// current are the requests of its template; 0 means not known.
	current backtest.Size
	// part is the fraction of all usage that has been read, 0 to 1; 0 means not known.
	part float64
}

// recorded is usage that can be read repeatedly, one container at a time.
type recorded interface {
	// each yields every container whose series name want accepts, in the same order each time. Its samples are valid
	// only during the call.
	each(ctx context.Context, want func(series string) bool, yield func(container) error) error
	// name returns the name of the usage, for sentences.
	name() string
}

// traceFile is a file with recorded usage.
type traceFile struct {
	env  *environment
	path string
	// settings are the judged settings. A sweep does not use them.
	settings policy.Settings
	bounds   usage.Most // bounds of plausible samples, from --node
	pool     input.Pool
}

func (t traceFile) name() string { return t.path }

func (t traceFile) each(_ context.Context, want func(string) bool, yield func(container) error) error {
	part := 0.0
	one := func(of backtest.Series) error {
		if !want(of.ID) {
			return nil
		}
		t.env.dropImplausible(of, t.bounds, recommender.Size{})
		return yield(container{Series: of, settings: *t.settings.For(containerOf(of.ID)), part: part})
	}
	if t.pool.Given() { // replicas may be anywhere in the file
		all, err := t.env.readUsage(t.path, t.pool)
		for i := 0; i < len(all) && err == nil; i++ {
			part = float64(i+1) / float64(len(all))
			err = one(all[i])
		}
		return err
	}
	report, err := csvfile.Each(t.path, func(read float64) { part = read }, one)
	if err != nil {
		return err
	}
	if report.Rows == 0 {
		return noSamples(t.path)
	}
	t.env.printOddities(t.path, report)
	return nil
}

// tooShort is the error if no series is long enough to judge.
type tooShort struct {
	of              string
	longest, warmup time.Duration
	// replicas says that series seem to be replicas; empty if they do not.
	replicas string
}

func (e tooShort) Error() string {
	switch {
	case e.replicas != "":
		return fmt.Sprintf("%s: all series are too short: %s", e.of, e.replicas)
	case e.longest > e.warmup:
		return e.of + ": no series has a plausible sample after the warm-up: correct the samples that were dropped"
	}
	return fmt.Sprintf("%s: all series are too short: the longest is %s, and the warm-up is %s; use more usage, or a shorter --warmup", e.of, e.longest, e.warmup)
}
