package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/adaptive"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage"
	"attune.io/attune/usage/csvfile"
	"attune.io/attune/usage/history"
)

// explainFiles explains what a policy recommends for recorded usage, without a cluster. All series have the size in
// the flags. The time of the explanation is --at, or the time of the last sample.
func explainFiles(env *environment, flags offlineFlags) error {
	// Check all inputs before the first answer, so that an error never follows half an explanation.
	if err := flags.missing(); err != nil {
		return err
	}
	size, err := flags.size()
	if err != nil {
		return err
	}
	settings, err := readSettings(env, flags.policy)
	if err != nil {
		return err
	}
	series, err := env.readUsage(flags.usage, flags.pool)
	if err != nil {
		return err
	}
	at := flags.at
	if at.IsZero() {
		if at, err = env.lastSample(flags.usage, series); err != nil {
			return err
		}
	}
	answer := answers.Explanation{Containers: []answers.ExplainedContainer{}}
	for _, s := range series {
		name := containerOf(s.ID)
		if settings.Resize.Excludes(name) {
			env.printNote("container %s is skipped: the policy excludes it (excludedContainers, or mode Off in containerPolicies)", s.ID)
			continue
		}
		of := *settings.For(name)
		dropped := env.dropImplausible(s, flags.node.Bounds(), size)
		steps := stepsOf(s, settings.Recommender, at)
		input := recommender.Input{
			Container: s.ID,
			Profile:   recommender.NewProfile(steps, settings.Recommender.QueryStep),
			Estimates: adaptive.Of(history.AsStored(steps, settings.Recommender.QueryStep), of),
			Settings:  of,
			Original:  size,

			Guaranteed: podview.CreatesGuaranteed(&corev1.PodSpec{Containers: make([]corev1.Container, 1)}, func(*corev1.Container) recommender.Size { return size }),
			Now:        at,
		}
		input.Implausible = csvfile.InDay(s, dropped, at)
		answer.Containers = append(answer.Containers, answers.ExplainOffline(input))
	}
	return env.print(answer)
}

// readSettings resolves a policy file, with the defaults in it, by the same function as the operator and its webhook.
// It rejects strategy Node, because its targets depend on the node, and notes what is probably not meant.
func readSettings(env *environment, path string) (policy.Settings, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return policy.Settings{}, fmt.Errorf("reading the policy: %w", err)
	}
	// Unknown fields and wrong types are errors, as on the API server.
	documents, err := input.ParsePolicy(text)
	if err != nil {
		return policy.Settings{}, fmt.Errorf("%s: %w", path, err)
	}
	settings, err := policy.Resolve(documents.Cluster, documents.Namespace, documents.Policy)
	if err != nil {
		return policy.Settings{}, fmt.Errorf("%s: %w", path, err)
	}
	if settings.Strategy == v1alpha1.StrategyNode {
		return policy.Settings{}, fmt.Errorf("%s: strategy %s is not supported without a cluster: use strategy %s or %s",
			path, settings.Strategy, v1alpha1.StrategyWorkload, v1alpha1.StrategyAdaptive)
	}
	for _, remark := range settings.Remarks() {
		env.printNote("%s: %s", path, remark)
	}
	return settings, nil
}

// readUsage reads the samples, pools replicas, and notes oddities of the file. A file without samples is an error.
func (e *environment) readUsage(path string, pool input.Pool) ([]backtest.Series, error) {
	series, report, err := csvfile.All(path)
	if err != nil {
		return nil, err
	}
	if len(series) == 0 {
		return nil, noSamples(path)
	}
	e.printOddities(path, report)
	if pool.Given() {
		return pool.Of(series)
	}
	if hint := replicasHint(seriesNames(series)); hint != "" {
		e.printNote("%s: %s", path, hint)
	}
	return series, nil
}

func noSamples(path string) error {
	return fmt.Errorf("%s: the file has no samples: add one row per sample below the header", path)
}

func seriesNames(series []backtest.Series) (names []string) {
	for _, s := range series {
		names = append(names, s.ID)
	}
	return names
}

// replicasHint says that series seem to be replicas; empty if they do not.
func replicasHint(names []string) string {
	of, pattern, pods := csvfile.Replicas(names)
	if pods == 0 {
		return ""
	}
	return fmt.Sprintf("%d series seem to be replicas of %s: pool them with --pool '%s'", pods, of, pattern)
}

// printOddities notes gaps, rows out of order and rows with the same time. They do not change the result, but each may
// be a mistake.
func (e *environment) printOddities(path string, report csvfile.Report) {
	var told []string
	for _, odd := range []struct {
		rows int
		what string
	}{
		{report.CPUGaps, "without cpu_cores"},
		{report.MemoryGaps, "without memory_bytes"},
		{report.OutOfOrder, "out of order (sorted)"},
		{report.Duplicates, "with a duplicate time (merged)"},
	} {
		if odd.rows > 0 {
			told = append(told, fmt.Sprintf("%d %s", odd.rows, odd.what))
		}
	}
	if told != nil {
		e.printNote("%s: %s, %s", path, answers.Counted(report.Rows, "row"), strings.Join(told, ", "))
	}
}

// printDropped notes the implausible samples that were dropped from a series.
func (e *environment) printDropped(series string, dropped [2]csvfile.Dropped) {
	for _, told := range csvfile.Told(dropped) {
		e.printNote("%s: %s", series, told)
	}
}

// dropImplausible drops the implausible samples of a series, and notes them. It also notes a series whose samples are
// too far apart to have peaks.
func (e *environment) dropImplausible(s backtest.Series, bounds usage.Most, size recommender.Size) [2]csvfile.Dropped {
	dropped := csvfile.DropImplausible(s, bounds, size)
	e.printDropped(s.ID, dropped)
	if step := backtest.Step(s.Samples); step > time.Hour {
		e.printNote("%s: one sample per %s: peaks in between are missing", s.ID, step)
	}
	return dropped
}

// mostAhead is how far a clock may be ahead of this machine's.
const mostAhead = time.Hour

// lastSample returns the time of the last sample. The explanation uses it as the present time, so that an old
// recording is explained as of then. Samples in the future do not count: one wrong time would make all others too old.
func (e *environment) lastSample(path string, series []backtest.Series) (time.Time, error) {
	var last, latest int64
	now, ahead := e.now().Add(mostAhead).UnixMilli(), 0
	for _, s := range series {
		for _, sample := range s.Samples {
			latest = max(latest, sample.At)
			if sample.At > now {
				ahead++
				continue
			}
			last = max(last, sample.At)
		}
	}
	if ahead > 0 {
		what := fmt.Sprintf("%s: timestamps of %s are in the future, up to %s", path, answers.Counted(ahead, "sample"), time.UnixMilli(latest).UTC().Format(time.RFC3339))
		if last == 0 {
			return time.Time{}, fmt.Errorf("%s: correct the timestamps, or set --at", what)
		}
		e.printNote("%s, and were left out: correct the timestamps, or set --at", what)
	}
	return time.UnixMilli(last).UTC(), nil
}

// containerOf returns the container's name in the name of a series, which is a container or ends with /CONTAINER.
func containerOf(series string) string { return series[strings.LastIndex(series, "/")+1:] }

// stepsOf returns the samples of the history window that ends at a time. It ignores later samples, so that the answer
// is the one that the operator would have given then.
func stepsOf(series backtest.Series, settings recommender.Settings, at time.Time) []recommender.StepUsage {
	// The window excludes its start and includes its end, as samples do.
	from, to := at.Add(-settings.HistoryWindow).UnixMilli(), at.UnixMilli()
	window := slices.DeleteFunc(slices.Clone(series.Samples), func(s backtest.Sample) bool { return s.At <= from || s.At > to })
	return csvfile.Steps(backtest.Series{ID: series.ID, Samples: window}, settings.QueryStep)
}

// offlineFlags are the flags of explain without a cluster.
type offlineFlags struct {
	// usage and policy are paths of files; empty means not given.
	usage, policy string
	// current and limits are the requests and limits of all containers.
	current, limits input.Amounts
	// node is the node of the containers. If not given, its size is not known.
	node input.Node
	// pool merges series that are replicas.
	pool input.Pool
	// at is the time of the explanation; zero means the time of the last sample.
	at time.Time
}

// addTo adds the flags to the verb explain.
func (f *offlineFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.usage, "usage", "", "CSV file with usage samples, gzip if its name ends in .gz: series_id,timestamp,cpu_cores,memory_bytes")
	flags.StringVar(&f.policy, "policy", "", "YAML file with an AttunePolicy or AttuneClusterPolicy, optionally followed by defaults")
	flags.Var(&f.current, "current", "Current requests of the containers, e.g. cpu=500m,memory=1Gi")
	flags.Var(&f.limits, "limits", "Current limits of the containers, e.g. cpu=1,memory=2Gi (default: not set)")
	f.node.AddTo(flags)
	f.pool.AddTo(flags)
	flags.Func("at", "RFC 3339 `time` of the explanation; later samples are ignored (default: the time of the last sample in the file)", func(text string) (err error) {
		if f.at, err = time.Parse(time.RFC3339, text); err != nil {
			return errors.New("must be an RFC 3339 time, e.g. 2026-01-15T10:00:00Z")
		}
		return nil
	})
}

// given reports whether any flag for files is set. One is enough, because missing names the others that are needed.
func (f *offlineFlags) given() bool {
	return f.usage != "" || f.policy != "" || f.current.Given || f.limits.Given || f.node.Given || f.pool.Given() || !f.at.IsZero()
}

// missing returns an error with the flags that are still needed, or nil.
func (f *offlineFlags) missing() error {
	var missing []string
	for _, flag := range []struct {
		given   bool
		example string
	}{
		{f.usage != "", "--usage samples.csv"}, {f.policy != "", "--policy policy.yaml"}, {f.current.Given, "--current cpu=500m,memory=1Gi"},
	} {
		if !flag.given {
			missing = append(missing, flag.example)
		}
	}
	// The other flags are optional.
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("to explain files, add %s", strings.Join(missing, " and "))
}

// size returns the size of the containers. As in Kubernetes, a limit without a request is also the request. A limit
// below its request is an error, because the API server would reject it.
func (f *offlineFlags) size() (recommender.Size, error) {
	var size recommender.Size
	for _, r := range recommender.Resources {
		size[r] = recommender.Allocation{Request: f.current.Of[r], Limit: f.limits.Of[r]}
		switch limit := size[r].Limit; {
		case limit > 0 && size[r].Request == 0:
			size[r].Request = limit
		case limit > 0 && limit < size[r].Request:
			return size, fmt.Errorf("--limits %s=%s is below --current %s=%s: a limit must not be below its request",
				r, recommender.Format(r, limit), r, recommender.Format(r, size[r].Request))
		}
	}
	return size, nil
}
