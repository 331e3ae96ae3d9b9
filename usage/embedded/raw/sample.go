package raw

import (
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// Sample of a series. It implements chunks.Sample of Prometheus by reference, so that an iteration allocates
// nothing.
type Sample struct {
	// At is the time in Unix milliseconds.
	At int64
	// Value is the sample's value, in the unit of its metric.
	Value float64
}

// Entry is a sample that is to be written, with the labels of its series, the metric name among them.
type Entry struct {
	// Labels identify the series.
	Labels labels.Labels
	// Sample is the value and its time.
	Sample
}

// T returns the time in Unix milliseconds.
func (s *Sample) T() int64 { return s.At }

// ST returns the start time of a counter; 0, because it is not known.
func (*Sample) ST() int64 { return 0 }

// F returns the value.
func (s *Sample) F() float64 { return s.Value }

// H returns nil: the sample is no histogram.
func (*Sample) H() *histogram.Histogram { return nil }

// FH returns nil: the sample is no histogram.
func (*Sample) FH() *histogram.FloatHistogram { return nil }

// Type returns that the sample is a float.
func (*Sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Copy returns a sample of its own, which stays valid when the series changes.
func (s *Sample) Copy() chunks.Sample { c := *s; return &c }

// Samples of one series, in the order of their times.
type Samples []Sample

// Get returns a pointer to the sample with the index i. It does not copy.
func (s Samples) Get(i int) chunks.Sample { return &s[i] }

// Len returns the number of samples.
func (s Samples) Len() int { return len(s) }

// Series returns the samples as a series of the query engine. The samples must not change afterwards.
func (s Samples) Series(of labels.Labels) storage.Series {
	return &storage.SeriesEntry{Lset: of, SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator { return storage.NewListSeriesIterator(s) }}
}
