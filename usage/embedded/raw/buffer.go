package raw

import (
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// buffer holds the samples that are in no pack yet. The journal has the same samples on disk. The mutex guards all
// fields, so a buffer is safe for concurrent use. mostWaiting bounds the samples.
type buffer struct {
	mutex  sync.RWMutex
	series map[labels.Labels]*buffered
	// samples is their number; first and last are the times of the oldest and the newest one, valid where samples
	// > 0.
	samples     int
	first, last int64
}

// buffered holds the samples of one series in the order in which they came, which may differ from that of their
// times. id is the number of the series in the journal: series are numbered 0, 1, 2, … as they come.
type buffered struct {
	labels  labels.Labels
	id      uint64
	samples Samples
}

// newBuffer returns an empty buffer. Its first series gets the number 0, as in an empty journal.
func newBuffer() *buffer { return &buffer{series: map[labels.Labels]*buffered{}} }

// know gives numbers to the series that are new. It adds no sample: journal.write needs the numbers before the
// batch is in the buffer.
func (b *buffer) know(entries []Entry) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, e := range entries {
		b.of(e.Labels)
	}
}

// add stores samples. It does not sort them and drops none.
func (b *buffer) add(entries []Entry) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, e := range entries {
		s := b.of(e.Labels)
		s.samples = append(s.samples, e.Sample)
		if b.samples == 0 {
			b.first, b.last = e.At, e.At
		}
		b.first, b.last = min(b.first, e.At), max(b.last, e.At)
		b.samples++
	}
}

// of returns the series with these labels and makes it where it is new. The caller holds mutex for writing.
func (b *buffer) of(l labels.Labels) *buffered {
	s := b.series[l]
	if s == nil {
		s = &buffered{labels: l, id: uint64(len(b.series))}
		b.series[l] = s
	}
	return s
}

// sorted returns the matching series in the given order, each with its samples from first to last in the order of
// their times. Of two samples with the same time the one that came first is kept. The samples are copies.
func (b *buffer) sorted(first, last int64, matches func(labels.Labels) bool, order func(a, b labels.Labels) int) []buffered {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	var found []buffered
	for _, s := range b.series {
		if !matches(s.labels) {
			continue
		}
		if part := within(s.samples, first, last); len(part) > 0 {
			found = append(found, buffered{labels: s.labels, samples: part})
		}
	}
	slices.SortFunc(found, func(a, b buffered) int { return order(a.labels, b.labels) })
	return found
}

// within returns a sorted copy of the samples from first to last. Samples nearly always come in order, so it sorts
// only where it meets one that does not.
func within(samples Samples, first, last int64) Samples {
	var part Samples
	inOrder := true
	for _, s := range samples {
		if s.At < first || s.At > last {
			continue
		}
		inOrder = inOrder && (len(part) == 0 || part[len(part)-1].At < s.At)
		part = append(part, s)
	}
	// Only a clock that was set back leads here.
	if !inOrder {
		slices.SortStableFunc(part, func(a, b Sample) int { return int(a.At - b.At) })
		part = slices.CompactFunc(part, func(a, b Sample) bool { return a.At == b.At })
	}
	return part
}

// span returns the times of the oldest and the newest sample. any is false where the buffer is empty.
func (b *buffer) span() (first, last int64, any bool) {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	return b.first, b.last, b.samples > 0
}

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
