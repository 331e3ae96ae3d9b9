package embedded

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"attune.io/attune/usage"
)

const (
	// importEvery is how far apart imported samples are: as far as scraped ones.
	importEvery = time.Minute
	// longestPast that one import may span.
	longestPast = 180 * 24 * time.Hour

	memoryMetric = "container_memory_working_set_bytes"
)

// Import writes a past into the folder of a source that is not running, as one block in the format of
// Prometheus. Samples of a series must be in the order of their times and stand for the time since the one
// before, or as long as the shortest such time where that is further back: CPU becomes a counter that grew
// so much. What ends before the first scrape joins what is scraped.
func Import(ctx context.Context, dir string, past iter.Seq[usage.Series]) (err error) {
	writer, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, 2*longestPast.Milliseconds())
	if err != nil {
		return fmt.Errorf("importing usage: %w", err)
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	for series := range past {
		if err := importSeries(ctx, writer, series); err != nil {
			return fmt.Errorf("importing the usage of %s/%s/%s: %w", series.Namespace, series.Pod, series.Container, err)
		}
	}
	if _, err := writer.Flush(ctx); err != nil {
		return fmt.Errorf("importing usage: %w", err)
	}
	return nil
}

func importSeries(ctx context.Context, writer *tsdb.BlockWriter, series usage.Series) error {
	appender := writer.AppenderV2(ctx)
	counted := 0.0
	err := errors.Join(
		appendPast(appender, series, "container_cpu_usage_seconds_total", series.CPU, func(value float64, d time.Duration) float64 {
			counted += value * d.Seconds()
			return counted
		}),
		appendPast(appender, series, memoryMetric, series.Memory, func(value float64, _ time.Duration) float64 { return value }),
	)
	if err != nil {
		return errors.Join(err, appender.Rollback())
	}
	return appender.Commit()
}

// appendPast writes what a kubelet would have said: shown is what it shows a while after it was asked last.
func appendPast(appender storage.AppenderV2, of usage.Series, metric string, samples []usage.Sample, shown func(value float64, since time.Duration) float64) error {
	name := labels.FromStrings(labels.MetricName, metric, "container", of.Container, "namespace", of.Namespace, "pod", of.Pod)
	step := shortest(samples)
	var ref storage.SeriesRef
	last := int64(0)
	put := func(at int64, value float64) (err error) {
		ref, err = appender.Append(ref, name, 0, at, value, nil, nil, storage.AppendV2Options{})
		last = at
		return err
	}
	for _, s := range samples {
		if from := s.At - step; from > last {
			// The first one, or the first after a gap: a counter has to start from somewhere.
			last = from
			if base := shown(s.Value, 0); metric != memoryMetric {
				if err := put(from, base); err != nil {
					return err
				}
			}
		}
		for last < s.At {
			next := min(last+importEvery.Milliseconds(), s.At)
			if err := put(next, shown(s.Value, time.Duration(next-last)*time.Millisecond)); err != nil {
				return err
			}
		}
	}
	return nil
}

// shortest time between two samples, in milliseconds.
func shortest(samples []usage.Sample) int64 {
	least := importEvery.Milliseconds()
	for i := 1; i < len(samples); i++ {
		if d := samples[i].At - samples[i-1].At; i == 1 || d < least {
			least = d
		}
	}
	return max(1, least)
}
