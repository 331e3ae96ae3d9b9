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

// newEngine makes the query engine. A sample is looked for up to 5 minutes back, as Prometheus does by default.
func newEngine(o Options) *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		Logger: o.Log, MaxSamples: maxSamples, Timeout: maxQuery, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return o.Interval.Milliseconds() },
	})
}

// wait blocks until scraping has begun. The error is that of the context.
func (s *Source) wait(ctx context.Context) error {
	select {
	case <-s.started:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// askRange evaluates an expression at each step of a query. It implements prometheus.Asker. The samples that it
// yields are valid during the call only.
func (s *Source) askRange(ctx context.Context, expression string, query usage.Query, yield func(prometheus.Element)) (usage.Report, error) {
	build := func(from storage.Queryable) (promql.Query, error) {
		return s.engine.NewRangeQuery(ctx, from, nil, expression, query.Start, query.End, query.Step)
	}
	return usage.Report{}, s.ask(ctx, false, build, func(result *promql.Result) error {
		matrix, err := result.Matrix()
		if err != nil {
			return err
		}
		// One buffer serves all series of the answer, because they are yielded one after the other.
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

// Value evaluates an expression at one time. The expression must answer one number: a scalar, or a vector of one
// series. A histogram is NaN. Errors are prometheus.ErrNoValue, prometheus.ErrManyValues, usage.ErrTooMuch, or
// describe what is wrong with the query, such as that it looks further back than memory does.
func (s *Source) Value(ctx context.Context, expression string, at time.Time) (value float64, err error) {
	build := func(from storage.Queryable) (promql.Query, error) {
		return s.engine.NewInstantQuery(ctx, from, nil, expression, at)
	}
	err = s.ask(ctx, true, build, func(result *promql.Result) error {
		value, err = onlyValue(result.Value)
		return err
	})
	return value, err
}

// onlyValue is the number that a query has answered.
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
	return 0, fmt.Errorf("the query answers with a %s, where a number is asked for", parser.DocumentedType(answer.Type()))
}

// AskNodes evaluates an expression about all nodes at one time, and returns its values by the names of the nodes.
func (s *Source) AskNodes(ctx context.Context, expression string, at time.Time) (map[string]float64, error) {
	return prometheus.AskNodes(ctx, expression, at, s.askRange)
}

// ask evaluates a query, which build makes for a storage (the engine binds a query to its storage), and gives the result to
// read, during which it is valid. Where whole is true, a query that looks further back than memory does is an error.
func (s *Source) ask(ctx context.Context, whole bool, build func(storage.Queryable) (promql.Query, error), read func(*promql.Result) error) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	query, err := build(s.recent.queryable(whole, s.options.Clock.Now()))
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

// problem translates an error of the engine: to the context's error where the caller gave up, and to
// usage.ErrTooMuch where a smaller query would be answered.
func problem(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var samples promql.ErrTooManySamples
	var late promql.ErrQueryTimeout
	if errors.As(err, &samples) || errors.As(err, &late) {
		return fmt.Errorf("%w: %w", usage.ErrTooMuch, err)
	}
	return err
}
