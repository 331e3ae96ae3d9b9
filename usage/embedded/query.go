package embedded

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

// newEngine makes the query engine. Its lookback is 5 minutes, the default of Prometheus.
// samples bounds the samples that one query may hold.
func newEngine(o Options, samples int) *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		Logger: o.Log, MaxSamples: samples, Timeout: maxQuery, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return o.Interval.Milliseconds() },
	})
}

// wait blocks until scraping has begun. It returns the error of the context.
func (s *Source) wait(ctx context.Context) error {
	select {
	case <-s.started:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// askRange evaluates an expression at each step of a query. It implements prometheus.Asker. The samples that it yields
// are valid only during the call.
func (s *Source) askRange(ctx context.Context, expression string, query usage.Query, yield func(prometheus.Element)) (usage.Report, error) {
	build := func(from storage.Queryable) (promql.Query, error) {
		return s.engine.NewRangeQuery(ctx, from, nil, expression, query.Start, query.End, query.Step)
	}
	return usage.Report{}, s.ask(ctx, false, 0, build, func(result *promql.Result) error {
		matrix, err := result.Matrix()
		if err != nil {
			return err
		}
		// One buffer serves all series of the answer, because they are yielded one after another.
		var buffer []usage.Sample
		for _, series := range matrix {
			buffer = buffer[:0]
			for _, point := range series.Floats {
				buffer = append(buffer, usage.Sample{At: point.T, Value: point.F})
			}
			of := series.Metric
			yield(prometheus.Element{Samples: buffer, Histograms: len(series.Histograms), Labels: prometheus.Labels{
				Namespace: of.Get("namespace"), Pod: of.Get("pod"), Container: of.Get("container"), Node: of.Get("node"), Peak: of.Get(prometheus.PeakLabel),
			}})
		}
		return nil
	})
}

// Value evaluates an expression at one time. The expression must return one number: a scalar, or a vector of one
// series. A histogram is NaN. Errors are prometheus.ErrNoValue, prometheus.ErrManyValues, usage.ErrTooMuch, or describe
// the problem of the query, such as a window longer than memory.
func (s *Source) Value(ctx context.Context, expression string, at time.Time) (float64, error) {
	return s.valueOf(ctx, s.engine, 0, expression, at)
}

// ValueOfNamespace is Value for a query that reads the series of one namespace: it may hold fewer samples, so that the
// queries of several namespaces together fit into memory.
func (s *Source) ValueOfNamespace(ctx context.Context, expression string, at time.Time) (float64, error) {
	return s.valueOf(ctx, s.small, maxSamplesOfNamespace, expression, at)
}

// valueOf evaluates an expression whose selectors together copy at most most samples; 0: any number.
func (s *Source) valueOf(ctx context.Context, engine *promql.Engine, most int, expression string, at time.Time) (value float64, err error) {
	build := func(from storage.Queryable) (promql.Query, error) {
		return engine.NewInstantQuery(ctx, from, nil, expression, at)
	}
	err = s.ask(ctx, true, most, build, func(result *promql.Result) error {
		value, err = onlyValue(result.Value)
		return err
	})
	return value, err
}

// onlyValue returns the single number of a query's result.
func onlyValue(answer parser.Value) (float64, error) {
	switch value := answer.(type) {
	case promql.Scalar:
		return value.V, nil
	case promql.Vector:
		switch len(value) {
		case 0:
			return 0, prometheus.ErrNoValue
		case 1:
			if value[0].H != nil {
				return math.NaN(), nil
			}
			return value[0].F, nil
		}
		return 0, prometheus.ErrManyValues
	}
	return 0, fmt.Errorf("the query returns a %s, not a number", parser.DocumentedType(answer.Type()))
}

// AskNodes evaluates an expression about all nodes at one time, and returns its values by node name.
func (s *Source) AskNodes(ctx context.Context, expression string, at time.Time) (map[string]float64, error) {
	return prometheus.AskNodes(ctx, expression, at, s.askRange)
}

// ask runs a query and passes the result to read. The result is valid only during read. build makes the query for a
// storage, because the engine binds a query to its storage. If whole is true, a query that reads further back than
// memory is an error. most bounds the samples that the query's selectors copy; 0: no bound.
func (s *Source) ask(ctx context.Context, whole bool, most int, build func(storage.Queryable) (promql.Query, error), read func(*promql.Result) error) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	query, err := build(s.recent.queryable(whole, most, s.options.Clock.Now()))
	if err != nil {
		return err
	}
	defer query.Close()
	result := query.Exec(ctx)
	if result.Err != nil {
		return problem(ctx, result.Err)
	}
	return read(result)
}

// problem translates an engine error: to the context's error if the context has ended, and to usage.ErrTooMuch if a
// smaller query would be answered.
func problem(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.As(err, new(promql.ErrTooManySamples)) || errors.As(err, new(promql.ErrQueryTimeout)) {
		return fmt.Errorf("%w: %w", usage.ErrTooMuch, err)
	}
	return err
}
