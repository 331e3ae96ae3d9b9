package raw

import (
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// Sample of a series. At is in milliseconds since 1970. It is a chunks.Sample by reference, so that iterating allocates
// nothing.
type Sample struct {
	At    int64
	Value float64
}

// Entry is a sample on its way to the disk.
type Entry struct {
	Labels labels.Labels
	Sample
}

// T is the time.
func (s *Sample) T() int64 { return s.At }

// ST is the start time, which is not known.
func (*Sample) ST() int64 { return 0 }

// F is the value.
func (s *Sample) F() float64 { return s.Value }

// H is none.
func (*Sample) H() *histogram.Histogram { return nil }

// FH is none.
func (*Sample) FH() *histogram.FloatHistogram { return nil }

// Type is a number.
func (*Sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Copy of the sample.
func (s *Sample) Copy() chunks.Sample { c := *s; return &c }

// Samples in the order of their times.
type Samples []Sample

// Get the one at i.
func (s Samples) Get(i int) chunks.Sample { return &s[i] }

// Len is how many there are.
func (s Samples) Len() int { return len(s) }

// Series with the samples, as the query engine reads it.
func (s Samples) Series(of labels.Labels) storage.Series {
	return &storage.SeriesEntry{Lset: of, SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator { return storage.NewListSeriesIterator(s) }}
}
