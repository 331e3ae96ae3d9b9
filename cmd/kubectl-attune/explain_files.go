package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/explain"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/adaptive"
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
	answer := explain.Explanation{Containers: []explain.Container{}}
	for _, s := range series {
		if settings.Resize.Excluded[s.ID] {
			env.note("container %s is left out: the policy excludes it (excludedContainers)", s.ID)
			continue
		}
		dropped := s.DropImplausible(flags.node.Bounds())
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
		answer.Containers = append(answer.Containers, explain.Offline(input))
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
func (e *environment) readUsage(path string) ([]csvfile.Series, error) {
	series, report, err := csvfile.All(path)
	if err != nil {
		return nil, err
	}
	if len(series) == 0 {
		return nil, fmt.Errorf("%s: it holds no samples: add a row per sample under the header", path)
	}
	if told := oddities(report); told != "" {
		e.note("%s: %d rows, %s", path, report.Rows, told)
	}
	return series, nil
}

// oddities returns in words what is unusual in a file that can be explained all the same; empty where nothing is.
// They are gaps, rows out of order and rows of the same time. None changes what the file means, but each may be a
// mistake.
func oddities(report csvfile.Report) string {
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
	return strings.Join(told, ", ")
}

// noteDropped notes the samples of a series that cannot be true.
func (e *environment) noteDropped(series string, dropped [2]csvfile.Dropped) {
	for _, told := range csvfile.Told(dropped) {
		e.note("%s: %s", series, told)
	}
}

// lastSample returns the time at which the file ends. It is the present for the explanation, so that an old
// recording is explained as it was then.
func lastSample(series []csvfile.Series) time.Time {
	var last int64
	for _, s := range series {
		last = max(last, s.Samples[len(s.Samples)-1].At)
	}
	return time.UnixMilli(last).UTC()
}

// stepsOf returns the history window that ends at a time. Later samples are not used: the answer is the one that the
// operator would have given then.
func stepsOf(series csvfile.Series, settings recommender.Settings, at time.Time) []recommender.StepUsage {
	// The window excludes its beginning and includes its end, as steps do.
	from, to := at.Add(-settings.HistoryWindow).UnixMilli(), at.UnixMilli()
	window := csvfile.Series{ID: series.ID}
	for _, sample := range series.Samples {
		if sample.At > from && sample.At <= to {
			window.Samples = append(window.Samples, sample)
		}
	}
	return csvfile.Steps(window, settings.QueryStep)
}
