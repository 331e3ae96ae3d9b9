package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/adaptive"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage/csvfile"
	"attune.io/attune/usage/history"
)

// explainFiles explains what a policy recommends for recorded usage, without a cluster. All series get the size of
// the flags. The time of the explanation is --at, else that of the last sample.
func explainFiles(env *environment, flags offlineFlags) error {
	// All inputs are checked before the first answer, so that an error never follows half of an explanation.
	if err := flags.missing(); err != nil {
		return err
	}
	size, err := flags.size()
	if err != nil {
		return err
	}
	settings, err := readSettings(flags.policy)
	if err != nil {
		return err
	}
	series, err := env.readUsage(flags.usage)
	if err != nil {
		return err
	}
	at := flags.at
	if at.IsZero() {
		at = lastSample(series)
	}
	answer := answers.Explanation{Containers: []answers.ExplainedContainer{}}
	for _, s := range series {
		if settings.Resize.Excluded[s.ID] {
			env.note("container %s is left out: the policy excludes it (excludedContainers)", s.ID)
			continue
		}
		dropped := csvfile.DropImplausible(s, flags.node.Bounds())
		env.noteDropped(s.ID, dropped)
		steps := stepsOf(s, settings.Recommender, at)
		input := recommender.Input{
			Container: s.ID,
			Profile:   recommender.NewProfile(steps, settings.Recommender.QueryStep),
			Estimates: adaptive.Of(history.AsStored(steps, settings.Recommender.QueryStep), settings.Recommender),
			Settings:  settings.Recommender,
			Original:  size,
			Now:       at,
		}
		input.Implausible = csvfile.InDay(s, dropped, at)
		answer.Containers = append(answer.Containers, answers.ExplainOffline(input))
	}
	return env.print(answer)
}

// readSettings resolves a policy file, with the defaults in it, by the same function as the operator and its
// webhook. The strategy Node is refused, since a target depends on the node there.
func readSettings(path string) (policy.Settings, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return policy.Settings{}, fmt.Errorf("reading the policy: %w", err)
	}
	// Unknown fields and wrong types are errors, as for the API server.
	documents, err := input.ParsePolicy(text)
	if err != nil {
		return policy.Settings{}, fmt.Errorf("%s: %w", path, err)
	}
	settings, err := policy.Resolve(documents.Cluster, documents.Namespace, documents.Policy)
	if err != nil {
		return policy.Settings{}, fmt.Errorf("%s: %w", path, err)
	}
	if settings.Strategy == v1alpha1.StrategyNode {
		return policy.Settings{}, fmt.Errorf("%s: strategy %s cannot be explained from files: set it to %s or %s",
			path, settings.Strategy, v1alpha1.StrategyWorkload, v1alpha1.StrategyAdaptive)
	}
	return settings, nil
}

// readUsage reads the samples, and notes what is unusual in the file.
// A file without samples is an error, because nothing could be explained.
func (e *environment) readUsage(path string) ([]backtest.Series, error) {
	series, report, err := csvfile.All(path)
	if err != nil {
		return nil, err
	}
	if len(series) == 0 {
		return nil, fmt.Errorf("%s: it holds no samples: add a row per sample under the header", path)
	}
	e.noteOddities(path, report)
	return series, nil
}

// noteOddities notes what is unusual in a file that can be explained all the same.
// It is gaps, rows out of order and rows of the same time. None changes what the file means, but each may be a
// mistake.
func (e *environment) noteOddities(path string, report csvfile.Report) {
	var told []string
	for _, odd := range []struct {
		rows int
		what string
	}{
		{report.CPUGaps, "without cpu_cores"},
		{report.MemoryGaps, "without memory_bytes"},
		{report.OutOfOrder, "out of order, sorted"},
		{report.Duplicates, "at the time of another, joined"},
	} {
		if odd.rows > 0 {
			told = append(told, fmt.Sprintf("%d %s", odd.rows, odd.what))
		}
	}
	if told != nil {
		e.note("%s: %d rows, %s", path, report.Rows, strings.Join(told, ", "))
	}
}

// noteDropped notes the samples of a series that cannot be true.
func (e *environment) noteDropped(series string, dropped [2]csvfile.Dropped) {
	for _, told := range csvfile.Told(dropped) {
		e.note("%s: %s", series, told)
	}
}

// lastSample returns the time at which the file ends. It is the present for the explanation, so that an old
// recording is explained as it was then.
func lastSample(series []backtest.Series) time.Time {
	var last int64
	for _, s := range series {
		last = max(last, s.Samples[len(s.Samples)-1].At)
	}
	return time.UnixMilli(last).UTC()
}

// stepsOf returns the history window that ends at a time. Later samples are not used: the answer is the one that the
// operator would have given then.
func stepsOf(series backtest.Series, settings recommender.Settings, at time.Time) []recommender.StepUsage {
	// The window excludes its beginning and includes its end, as steps do.
	from, to := at.Add(-settings.HistoryWindow).UnixMilli(), at.UnixMilli()
	window := backtest.Series{ID: series.ID}
	for _, sample := range series.Samples {
		if sample.At > from && sample.At <= to {
			window.Samples = append(window.Samples, sample)
		}
	}
	return csvfile.Steps(window, settings.QueryStep)
}

// offlineFlags are the flags of explain without a cluster.
type offlineFlags struct {
	// usage and policy are paths of files; empty: not given.
	usage, policy string
	// current and limits are requests and limits that all containers have.
	current, limits input.Amounts
	// node on which the containers ran; not given: it is not known.
	node input.Node
	// at is the time to explain as of; zero: that of the last sample.
	at time.Time
}

// addTo adds the flags to the verb explain.
func (f *offlineFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.usage, "usage", "", "CSV file of usage samples, gzip by name (.gz): series_id,timestamp,cpu_cores,memory_bytes")
	flags.StringVar(&f.policy, "policy", "", "YAML file with an AttunePolicy, and the defaults under it where there are any")
	flags.Var(&f.current, "current", "Requests that the containers have, e.g. cpu=500m,memory=1Gi")
	flags.Var(&f.limits, "limits", "Limits that the containers have, e.g. cpu=1,memory=2Gi; none where left out")
	f.node.AddTo(flags)
	flags.Func("at", "RFC 3339 `time` to explain as of; later samples are ignored (default: the time of the last sample in the file)", func(text string) (err error) {
		if f.at, err = time.Parse(time.RFC3339, text); err != nil {
			return errors.New("write an RFC 3339 time, e.g. 2026-01-15T10:00:00Z")
		}
		return nil
	})
}

// given returns whether any of the flags is set, which means that files are explained.
// One flag of files is enough: missing then names those that are still needed.
func (f *offlineFlags) given() bool {
	return f.usage != "" || f.policy != "" || f.current.Given || f.limits.Given || f.node.Given || !f.at.IsZero()
}

// missing returns one sentence with the flags that are still needed; nil where none is.
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
	// --limits and --at may be left out.
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("to explain files, add %s", strings.Join(missing, " and "))
}

// size returns the size of the containers. A limit without a request is the request too, as in Kubernetes.
// A limit below its request is an error, as the API server would refuse it.
func (f *offlineFlags) size() (recommender.Size, error) {
	var size recommender.Size
	for _, r := range recommender.Resources {
		size[r] = recommender.Allocation{Request: f.current.Of[r], Limit: f.limits.Of[r]}
		switch limit := size[r].Limit; {
		case limit > 0 && size[r].Request == 0:
			size[r].Request = limit
		case limit > 0 && limit < size[r].Request:
			return size, fmt.Errorf("--limits %s=%s is below --current %s=%s: a limit is at least its request",
				r, recommender.Format(r, limit), r, recommender.Format(r, size[r].Request))
		}
	}
	return size, nil
}
