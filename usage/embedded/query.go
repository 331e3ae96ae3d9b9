package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"k8s.io/utils/clock"

	"attune.io/attune/usage"
	"attune.io/attune/usage/embedded/raw"
	"attune.io/attune/usage/prometheus"
)

// evaluator answers PromQL expressions from memory and disk. maxSamples and maxQuery limit each query. It is safe
// for concurrent use.
type evaluator struct {
	engine *promql.Engine
	// recent is the memory, disk the older samples.
	recent *recent
	disk   *disk
	// started is closed when what is on disk can be read, or the disk was not opened in time.
	started chan struct{}
	clock   clock.WithTicker
	log     *slog.Logger
}

// newEvaluator makes an evaluator whose queries wait until started is closed. A sample is looked for up to 5
// minutes back, as Prometheus does by default.
func newEvaluator(o Options) *evaluator {
	return &evaluator{
		recent: newRecent(minWindow, o.Clock.Now()), disk: newDisk(o.Disk, o.Clock, o.Log), started: make(chan struct{}), clock: o.Clock, log: o.Log,
		engine: promql.NewEngine(promql.EngineOpts{
			Logger: warnings(o.Log), MaxSamples: maxSamples, Timeout: maxQuery, LookbackDelta: 5 * time.Minute,
			EnableAtModifier: true, EnableNegativeOffset: true,
			NoStepSubqueryIntervalFn: func(int64) int64 { return o.Interval.Milliseconds() },
		}),
	}
}

// wait blocks until the disk can be read, or is not waited for any longer. The error is that of the context.
func (e *evaluator) wait(ctx context.Context) error {
	select {
	case <-e.started:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// askRange evaluates an expression at each step of a query. It implements prometheus.Asker. The samples that it
// yields are valid during the call only.
func (e *evaluator) askRange(ctx context.Context, expression string, query usage.Query, yield func(prometheus.Element)) (prometheus.Said, error) {
	result, said, err := e.ask(ctx, func(from storage.Queryable) (promql.Query, error) {
		return e.engine.NewRangeQuery(ctx, from, nil, expression, query.Start, query.End, query.Step)
	})
	if err != nil {
		return said, err
	}
	defer result.close()
	matrix, err := result.Matrix()
	if err != nil {
		return said, err
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
	return said, nil
}

// Value evaluates an expression at one time. The expression must answer one number: a scalar, or a vector of one
// series. A histogram is NaN. Errors are prometheus.ErrNoValue, prometheus.ErrManyValues, usage.ErrTooMuch, or
// describe what is wrong with the query.
func (e *evaluator) Value(ctx context.Context, expression string, at time.Time) (float64, error) {
	if err := e.wait(ctx); err != nil {
		return 0, err
	}
	result, _, err := e.ask(ctx, func(from storage.Queryable) (promql.Query, error) {
		return e.engine.NewInstantQuery(ctx, from, nil, expression, at)
	})
	if err != nil {
		return 0, err
	}
	defer result.close()
	switch value := result.Value.(type) {
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
	return 0, fmt.Errorf("the query answers with a %s, where a number is asked for", parser.DocumentedType(result.Value.Type()))
}

// answer is a result of the engine. The caller calls close when it has read the result; the engine reuses the
// memory then.
type answer struct {
	*promql.Result
	close func()
}

// AskNodes evaluates an expression about all nodes at one time, and returns its values by the names of the nodes.
func (e *evaluator) AskNodes(ctx context.Context, expression string, at time.Time) (map[string]float64, error) {
	if err := e.wait(ctx); err != nil {
		return nil, err
	}
	return prometheus.AskNodes(ctx, expression, at, e.askRange)
}

// ask evaluates a query. Where it fails with the disk and succeeds without, the answer is from memory alone and
// partial. A query that is too large for the engine fails either way, so it says nothing about the disk and is not
// repeated.
//
// make builds the query for a storage, since the engine binds a query to its storage. It is called up to twice.
func (e *evaluator) ask(ctx context.Context, make func(storage.Queryable) (promql.Query, error)) (answer, prometheus.Said, error) {
	result, err := run(ctx, make, e.both())
	if err == nil || ctx.Err() != nil || errors.Is(err, usage.ErrTooMuch) {
		return result, prometheus.Said{}, err
	}
	result, wrong := run(ctx, make, e.recent)
	if wrong != nil {
		return answer{}, prometheus.Said{}, err
	}
	switch {
	case errors.Is(err, raw.ErrHangs), errors.Is(err, errOpening), errors.Is(err, raw.ErrUnread):
		e.disk.logUnanswered(err) // the store leaves out a pack that it cannot read
	default:
		e.disk.doubt()
		e.log.Error("a query of the samples on disk failed; it is answered from memory alone", "cause", err.Error())
	}
	return result, prometheus.Said{Partial: true, Warnings: []string{"the samples on disk cannot be read: " + err.Error()}}, nil
}

// run evaluates a query on one storage. After an error the query is closed already.
func run(ctx context.Context, make func(storage.Queryable) (promql.Query, error), from storage.Queryable) (answer, error) {
	query, err := make(from)
	if err != nil {
		return answer{}, err
	}
	result := query.Exec(ctx)
	if result.Err == nil {
		return answer{result, query.Close}, nil
	}
	query.Close()
	return answer{}, problem(ctx, result.Err)
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

// both is the memory and, for older samples, the disk. Where the memory covers the time of the query, the disk is
// not touched.
func (e *evaluator) both() storage.Queryable {
	return storage.QueryableFunc(func(first, last int64) (storage.Querier, error) {
		recent, err := e.recent.Querier(first, last)
		if err != nil || e.recent.covers(first, e.clock.Now()) {
			return recent, err
		}
		older, err := e.disk.querier(first, last)
		// Without a disk, memory is all that there is, which is no error.
		if older == nil || err != nil {
			return recent, err
		}
		return storage.NewMergeQuerier([]storage.Querier{recent, older}, nil, storage.ChainedSeriesMerge), nil
	})
}

// warnings returns a logger for Prometheus's own packages that drops everything below warnings. They log much at
// lower levels.
func warnings(log *slog.Logger) *slog.Logger { return slog.New(quiet{log.Handler()}) }

// quiet drops records below warnings.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }
