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

// SeriesID returns the name of a container's series: namespace/kind/name/container.
func SeriesID(of workload.Identity, container string) string {
	return of.Namespace + "/" + string(of.Kind) + "/" + of.Name + "/" + container
}

// Span is the period of usage. It excludes its start.
type Span struct{ From, To time.Time }

// Stored returns the series from a recommendation's checkpoints, by container name. A container without a checkpoint
// is missing. The error names the containers whose checkpoints cannot be read; the others are valid.
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

// seriesOf returns the samples within a span that have a value. columns are by resource and start with sample number
// first.
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

// leastSteps is the minimum number of samples per query. A server that rejects an hour of one workload is in trouble,
// so smaller parts do not help.
const leastSteps = 12

// Question asks for the usage of one workload.
type Question struct {
	Source usage.Source
	Of     workload.Identity
	// Neighbours has the workloads of the namespace, so that a pod is not matched to a workload with a shorter name.
	Neighbours workload.PodIndex
	Span       Span
	// Step is the interval of samples. CPU is the rate over it, memory the highest working set within it.
	Step time.Duration
}

// Asked queries a source for the usage of a workload, and returns the series by container name. If the source rejects
// the query as too large, Asked halves it. The report says whether data is missing.
func Asked(ctx context.Context, q Question) (map[string]backtest.Series, usage.Report, error) {
	query := q.query()
	a := answer{question: &q, first: usage.StepOf(query.Start, q.Step), steps: query.Steps(), of: map[string]*[2][]float64{}}
	report, err := q.read(ctx, query, a.add)
	if err != nil {
		return nil, report, err
	}
	found := map[string]backtest.Series{}
	for name, columns := range a.of {
		found[name] = seriesOf(SeriesID(q.Of, name), a.first, q.Step, *columns, q.Span)
	}
	return found, report, nil
}

// query asks for the whole span.
func (q *Question) query() usage.Query {
	return usage.Query{
		Namespaces: []string{q.Of.Namespace}, PodPrefixes: []string{usage.PodPrefix(q.Of.Name)},
		Start: usage.StepEnd(usage.StepOf(q.Span.From, q.Step)+1, q.Step), End: usage.StepEnd(usage.StepOf(q.Span.To, q.Step), q.Step),
		Step: q.Step, RateWindow: q.Step,
	}
}

// owns reports whether a pod belongs to the workload.
func (q *Question) owns(pod string) bool {
	owner, match := q.Neighbours.Of(pod)
	return match == workload.MatchFound && owner.Kind == q.Of.Kind && owner.Name == q.Of.Name
}

// answer collects the highest value of each sample.
type answer struct {
	question     *Question
	first, steps int64
	of           map[string]*[2][]float64
}

// read queries a part. An aborted response may have delivered samples, and the halves deliver them again. The highest
// value is the same.
func (q *Question) read(ctx context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	report, err := q.Source.Read(ctx, query, yield)
	if !errors.Is(err, usage.ErrTooMuch) || query.Steps() <= leastSteps {
		return report, err
	}
	report = usage.Report{}
	for _, half := range query.Split((query.Steps() + 1) / 2) {
		part, err := q.read(ctx, half, yield)
		if err != nil {
			return report, err
		}
		report.Add(part)
	}
	return report, nil
}

// add adds a series if its pod belongs to the workload.
func (a *answer) add(piece usage.Series) {
	if !a.question.owns(piece.Pod) {
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
