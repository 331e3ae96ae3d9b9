package raw

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// querier answers the query engine from one pack. Select reads the bodies of the groups that may match; the
// samples of a series are read only when the engine iterates over them. The other methods, which the engine never
// calls here, are those of storage.NoopQuerier.
type querier struct {
	storage.Querier
	pack        *pack
	first, last int64
}

// Select returns the matching series in the order of their labels, whether or not that was asked for: the store
// merges the results of several packs, which needs the order. An error of a read is the error of the set.
func (q querier) Select(ctx context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	// The directory is in memory, so a group that cannot match costs no read.
	namespaces, metrics := literals(matchers, namespaceLabel), literals(matchers, labels.MetricName)
	for _, g := range q.pack.groups {
		if ctx.Err() != nil {
			return storage.ErrSeriesSet(ctx.Err())
		}
		if g.max < q.first || g.min > q.last || !g.mayHave(namespaces, metrics) {
			continue
		}
		series, err := q.pack.group(ctx, g)
		if err != nil {
			return storage.ErrSeriesSet(err)
		}
		for i := range series {
			if s := &series[i]; matchAll(matchers, s.labels) && s.overlaps(q.first, q.last) {
				found = append(found, q.entry(ctx, s))
			}
		}
	}
	return Sorted(found)
}

// entry returns a series whose samples are read when they are iterated over, as long as the context of the query
// lasts.
func (q querier) entry(ctx context.Context, s *part) storage.Series {
	return &storage.SeriesEntry{Lset: s.labels, SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
		return s.iterator(ctx, q.first, q.last)
	}}
}

// overlaps returns whether a chunk of the series overlaps the time from first to last.
func (s *part) overlaps(first, last int64) bool {
	return slices.ContainsFunc(s.chunks, func(c chunk) bool { return c.max >= first && c.min <= last })
}

// literals returns the values that the matchers allow for a label, where they list them; nil where any value may
// match.
func literals(matchers []*labels.Matcher, label string) []string {
	for _, m := range matchers {
		switch {
		case m.Name != label:
		case m.Type == labels.MatchEqual:
			return []string{m.Value}
		case m.Type == labels.MatchRegexp && len(m.SetMatches()) > 0:
			return m.SetMatches()
		}
	}
	return nil
}

// mayHave returns whether the group may hold a series of one of the namespaces and metrics. The metrics are
// compared only in a group of one namespace: in others the series are ordered by namespace first, and the first
// and last metric are no bounds.
func (g *group) mayHave(namespaces, metrics []string) bool {
	return between(g.namespaces, namespaces) && (g.namespaces[0] != g.namespaces[1] || between(g.metrics, metrics))
}

// between returns whether one of the texts lies between two ends, both included; true where there is no list
// (nil).
func between(ends [2]string, any []string) bool {
	return any == nil || slices.ContainsFunc(any, func(s string) bool { return ends[0] <= s && s <= ends[1] })
}

// matchAll returns whether labels fulfil all matchers. A missing label has the empty value.
func matchAll(matchers []*labels.Matcher, of labels.Labels) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(of.Get(m.Name)) })
}

// waiting answers the query engine from the buffer, that is from the samples that are in no pack yet.
type waiting struct {
	storage.Querier
	buffer      *buffer
	first, last int64
}

// Select copies the matching samples under the buffer's mutex, so that Append may go on during the query.
func (q waiting) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	matching := func(of labels.Labels) bool { return matchAll(matchers, of) }
	for _, s := range q.buffer.sorted(q.first, q.last, matching, labels.Compare) {
		found = append(found, s.samples.Series(s.labels))
	}
	return Sorted(found)
}

// Sorted sorts the series by their labels, in place, and returns them as a set.
// Package embedded uses it for the samples in memory too.
func Sorted(series []storage.Series) storage.SeriesSet {
	slices.SortFunc(series, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return &set{series: series, at: -1}
}

// set iterates over series in memory. It has no errors and no warnings.
type set struct {
	series []storage.Series
	at     int
}

func (s *set) Next() bool                      { s.at++; return s.at < len(s.series) }
func (s *set) At() storage.Series              { return s.series[s.at] }
func (*set) Err() error                        { return nil }
func (*set) Warnings() annotations.Annotations { return nil }
