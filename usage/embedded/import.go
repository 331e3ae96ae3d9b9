package embedded

import (
	"fmt"
	"iter"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"attune.io/attune/usage"
	"attune.io/attune/usage/embedded/raw"
)

const (
	// importEvery is how far apart imported samples are: as far as scraped ones.
	importEvery = time.Minute

	memoryMetric = "container_memory_working_set_bytes"
)

// Import writes a past into the folder of a source that is not running. The samples of a series must be in the
// order of their times. A sample stands for the time since the one before, or for the shortest such time where the
// one before is further back. CPU, which is a rate in cores, becomes a counter in seconds that grew accordingly;
// memory is repeated.
//
// An error means that the folder cannot be written. Nothing is imported then.
func Import(dir string, past iter.Seq[usage.Series]) error {
	err := raw.Write(dir, func(yield func(labels.Labels, raw.Samples) bool) {
		for series := range past {
			counted := 0.0
			cpu := imported(series.CPU, true, func(value float64, d time.Duration) float64 {
				counted += value * d.Seconds()
				return counted
			})
			memory := imported(series.Memory, false, func(value float64, _ time.Duration) float64 { return value })
			if !yield(importedName("container_cpu_usage_seconds_total", series), cpu) || !yield(importedName(memoryMetric, series), memory) {
				return
			}
		}
	})
	if err != nil {
		return fmt.Errorf("importing usage: %w", err)
	}
	return nil
}

// importedName returns the labels that a scraped series of the container would have, but without the label node.
func importedName(metric string, of usage.Series) labels.Labels {
	return labels.FromStrings(labels.MetricName, metric, "container", of.Container, "namespace", of.Namespace, "pod", of.Pod)
}

// imported returns the samples that a kubelet would have reported, importEvery apart. shown returns the value that
// the kubelet would have reported that long after the sample before.
func imported(samples []usage.Sample, counter bool, shown func(value float64, since time.Duration) float64) (said raw.Samples) {
	step := shortest(samples)
	last := int64(0)
	put := func(at int64, value float64) {
		said = append(said, raw.Sample{At: at, Value: value})
		last = at
	}
	for _, s := range samples {
		if from := s.At - step; from > last {
			// The first one, or the first after a gap: a counter has to start from somewhere.
			last = from
			if base := shown(s.Value, 0); counter {
				put(from, base)
			}
		}
		for last < s.At {
			next := min(last+importEvery.Milliseconds(), s.At)
			put(next, shown(s.Value, time.Duration(next-last)*time.Millisecond))
		}
	}
	return said
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
