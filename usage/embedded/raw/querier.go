package raw

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// querier answers the query engine from one pack. The samples of a series are read when they are iterated over.
type querier struct {
	NoLabels
	pack        *pack
	first, last int64
}

// NoLabels answers what the engine never asks of a querier.
type NoLabels struct{}

// LabelValues are none.
func (NoLabels) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames are none.
func (NoLabels) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Close does nothing.
func (NoLabels) Close() error { return nil }

// Select answers in the order of the labels, whether or not that was asked for.
func (q querier) Select(ctx context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
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

// entry reads the samples while the context of its question lasts.
func (q querier) entry(ctx context.Context, s *part) storage.Series {
	return &storage.SeriesEntry{Lset: s.labels, SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
		return s.iterator(ctx, q.first, q.last)
	}}
}

func (s *part) overlaps(first, last int64) bool {
	return slices.ContainsFunc(s.chunks, func(c chunk) bool { return c.max >= first && c.min <= last })
}

// literals that a label may have; nil: anything.
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

// mayHave a series of one of the namespaces and metrics. Its series are in the order of both.
func (g *group) mayHave(namespaces, metrics []string) bool {
	return between(g.namespaces, namespaces) && (g.namespaces[0] != g.namespaces[1] || between(g.metrics, metrics))
}

func between(ends [2]string, any []string) bool {
	return any == nil || slices.ContainsFunc(any, func(s string) bool { return ends[0] <= s && s <= ends[1] })
}

func matchAll(matchers []*labels.Matcher, of labels.Labels) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(of.Get(m.Name)) })
}

// waiting answers from the samples that are in no pack yet.
type waiting struct {
	NoLabels
	buffer      *buffer
	first, last int64
}

func (q waiting) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	matching := func(of labels.Labels) bool { return matchAll(matchers, of) }
	for _, s := range q.buffer.sorted(q.first, q.last, matching, labels.Compare) {
		found = append(found, s.samples.Series(s.labels))
	}
	return Sorted(found)
}

// Sorted is a set of series in the order of their labels, which it puts them into.
func Sorted(series []storage.Series) storage.SeriesSet {
	slices.SortFunc(series, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return &set{series: series, at: -1}
}

type set struct {
	series []storage.Series
	at     int
}

func (s *set) Next() bool                      { s.at++; return s.at < len(s.series) }
func (s *set) At() storage.Series              { return s.series[s.at] }
func (*set) Err() error                        { return nil }
func (*set) Warnings() annotations.Annotations { return nil }
