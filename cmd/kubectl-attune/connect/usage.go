package connect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage"
	"attune.io/attune/usage/codec"
)

// SeriesID names the series of a container: namespace/kind/name/container.
func SeriesID(of workload.Identity, container string) string {
	return of.Namespace + "/" + string(of.Kind) + "/" + of.Name + "/" + container
}

// Span is the time of which usage is read; its beginning is excluded.
type Span struct{ From, To time.Time }

// Stored returns the series that the checkpoints of a recommendation hold, by the names of the containers. A container
// without a checkpoint is missing. The error names the containers whose checkpoints cannot be read; the others are good.
func Stored(rec *v1alpha1.AttuneRecommendation, span Span) (map[string]backtest.Series, error) {
	found := map[string]backtest.Series{}
	var broken []error
	for _, stored := range rec.Spec.Checkpoints {
		past, err := codec.UnpackCheckpoint(stored.Data)
		if err != nil {
			broken = append(broken, fmt.Errorf("the checkpoint of container %s cannot be used: %w", stored.Name, err))
			continue
		}
		found[stored.Name] = seriesOf(SeriesID(workload.IdentityOf(rec), stored.Name), past.First, past.Step, [2][]float64{past.CPU, past.Memory}, span)
	}
	return found, errors.Join(broken...)
}

// seriesOf has the steps of a span of which something is known. columns are by resource, and begin with the step first.
func seriesOf(id string, first int64, step time.Duration, columns [2][]float64, span Span) backtest.Series {
	series := backtest.Series{ID: id}
	for i := range max(len(columns[0]), len(columns[1])) {
		at, used := usage.StepEnd(first+int64(i), step), [2]float64{math.NaN(), math.NaN()}
		for r, column := range columns {
			if i < len(column) {
				used[r] = column[i]
			}
		}
		if known := !math.IsNaN(used[0]) || !math.IsNaN(used[1]); known && at.After(span.From) && !at.After(span.To) {
			series.Samples = append(series.Samples, backtest.Sample{At: at.UnixMilli(), Used: used})
		}
	}
	return series
}

// leastSteps is how few steps are not asked for in parts: a server that finds an hour of one workload too much is in trouble.
const leastSteps = 12

// Question is about the usage of one workload.
type Question struct {
	Source usage.Source
	Of     workload.Identity
	// Neighbours has the workloads of the namespace, so that a pod is not taken for that of a workload with a shorter name.
	Neighbours workload.PodIndex
	Span       Span
	// Step is the distance of samples; CPU is the rate over it, memory the highest working set within it.
	Step time.Duration
}

// Asked asks a source for the usage of a workload, and returns the series by the names of the containers. What is too much
// at once is asked for in halves. The report says whether the answer lacks something.
func Asked(ctx context.Context, q Question) (map[string]backtest.Series, usage.Report, error) {
	query := usage.Query{
		Namespaces: []string{q.Of.Namespace}, PodPrefixes: []string{usage.PodPrefix(q.Of.Name)},
		Start: usage.StepEnd(usage.StepOf(q.Span.From, q.Step)+1, q.Step), End: usage.StepEnd(usage.StepOf(q.Span.To, q.Step), q.Step),
		Step: q.Step, RateWindow: q.Step,
	}
	a := answer{question: q, first: usage.StepOf(query.Start, q.Step), steps: query.Steps(), of: map[string]*[2][]float64{}}
	report, err := a.ask(ctx, query)
	if err != nil {
		return nil, report, err
	}
	found := map[string]backtest.Series{}
	for name, columns := range a.of {
		found[name] = seriesOf(SeriesID(q.Of, name), a.first, q.Step, *columns, q.Span)
	}
	return found, report, nil
}

// answer collects the highest value of each step.
type answer struct {
	question     Question
	first, steps int64
	of           map[string]*[2][]float64
}

// ask for a part. What an answer that broke off has told is told again by its halves, and the highest value stays the same.
func (a *answer) ask(ctx context.Context, query usage.Query) (usage.Report, error) {
	report, err := a.question.Source.Read(ctx, query, a.add)
	if !errors.Is(err, usage.ErrTooMuch) || query.Steps() <= leastSteps {
		return report, err
	}
	report = usage.Report{}
	for _, half := range query.Split((query.Steps() + 1) / 2) {
		part, err := a.ask(ctx, half)
		if err != nil {
			return report, err
		}
		report.Add(part)
	}
	return report, nil
}

// add a piece of the answer, if it is of a pod of the workload.
func (a *answer) add(piece usage.Series) {
	owner, match := a.question.Neighbours.Of(piece.Pod)
	if match != workload.MatchFound || owner.Kind != a.question.Of.Kind || owner.Name != a.question.Of.Name {
		return
	}
	columns := a.of[piece.Container]
	if columns == nil {
		columns = &[2][]float64{gaps(a.steps), gaps(a.steps)}
		a.of[piece.Container] = columns
	}
	for r, samples := range [2][]usage.Sample{recommender.CPU: piece.CPU, recommender.Memory: piece.Memory} {
		for _, s := range samples {
			if n := usage.StepOf(s.Time(), a.question.Step) - a.first; n >= 0 && n < a.steps {
				columns[r][n] = recommender.Highest(columns[r][n], s.Value)
			}
		}
	}
}

func gaps(n int64) []float64 { return slices.Repeat([]float64{math.NaN()}, int(n)) }
