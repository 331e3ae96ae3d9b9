package raw

import (
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
)

// buffer is what is in no pack yet. Its journal has the same on disk. It is safe for concurrent use.
type buffer struct {
	mutex       sync.RWMutex
	series      map[labels.Labels]*buffered
	samples     int
	first, last int64
}

// buffered samples of a series, in the order in which they came. The id is the journal's.
type buffered struct {
	labels  labels.Labels
	id      uint64
	samples Samples
}

func newBuffer() *buffer { return &buffer{series: map[labels.Labels]*buffered{}} }

// know the series of entries, and number those that are new.
func (b *buffer) know(entries []Entry) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, e := range entries {
		b.of(e.Labels)
	}
}

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

func (b *buffer) of(l labels.Labels) *buffered {
	s := b.series[l]
	if s == nil {
		s = &buffered{labels: l, id: uint64(len(b.series))}
		b.series[l] = s
	}
	return s
}

// sorted series, each with its samples of a time in the order of their times; of two of the same time the one that came
// first is kept.
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
	if !inOrder {
		slices.SortStableFunc(part, func(a, b Sample) int { return int(a.At - b.At) })
		part = slices.CompactFunc(part, func(a, b Sample) bool { return a.At == b.At })
	}
	return part
}

// span is the times of the first and the last sample, and whether there is any.
func (b *buffer) span() (first, last int64, any bool) {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	return b.first, b.last, b.samples > 0
}
