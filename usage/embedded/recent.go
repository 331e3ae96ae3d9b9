package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"attune.io/attune/usage"
)

const (
	// keptFor is how long samples are kept: an hour for guardrails, and a quarter of an hour for the rates in their
	// expressions.
	keptFor = 75 * time.Minute
	// minNeeded and maxNeeded bound how long samples are kept in a namespace with more than mostSamples.
	minNeeded, maxNeeded = 20 * time.Minute, time.Hour
	// mostSamples is how many samples of one namespace are kept for guardrails, 16 bytes each: enough for 3,300
	// containers with one scrape a minute.
	mostSamples = 500_000
)

// recent has the newest samples of every series in memory. mutex guards all fields and the samples of all series.
// keptFor and mostSamples bound the samples, maxSeries and the number of nodes bound the series.
type recent struct {
	mutex  sync.RWMutex
	series map[labels.Labels]*series
	// byName has the same series by metric, for queries and counts.
	byName map[string]map[*series]struct{}
	// ofPod has the series that Lately uses, by pod.
	ofPod map[Pod]map[*series]struct{}
	// needed is the longest window of any Read. No bound removes samples within it, because recommendations depend on
	// them.
	needed time.Duration
	// most is mostSamples; less in tests.
	most int
	// whole has, for each namespace with more than most samples, the time since which memory has all of them.
	whole map[string]int64
	// since is when scraping began: memory has no earlier samples. It and the values of whole are Unix milliseconds.
	since int64
}

// series of a scrape. The mutex of recent guards its samples.
type series struct {
	labels labels.Labels
	// samples are sorted by time.
	samples []promql.FPoint
	// gone: the series was dropped, and queries do not see it.
	gone bool
}

// scraped is a sample on its way into the store.
type scraped struct {
	series *series
	promql.FPoint
}

// newRecent returns an empty memory.
func newRecent(now time.Time) *recent {
	return &recent{
		series: map[labels.Labels]*series{}, byName: map[string]map[*series]struct{}{}, ofPod: map[Pod]map[*series]struct{}{},
		needed: minNeeded, most: mostSamples, whole: map[string]int64{}, since: now.UnixMilli(),
	}
}

// intern returns the only series with these labels, for any kubelet and any spelling of its text.
func (r *recent) intern(of labels.Labels) *series {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if known := r.series[of]; known != nil {
		return known
	}
	s := &series{labels: of}
	r.put(s)
	return s
}

// put adds a series to all maps. The caller holds mutex.
func (r *recent) put(s *series) {
	s.gone = false
	r.series[s.labels] = s
	metric := s.labels.Get(labels.MetricName)
	if r.byName[metric] == nil {
		r.byName[metric] = map[*series]struct{}{}
	}
	r.byName[metric][s] = struct{}{}
	if pod, told := podOf(s.labels); told {
		if r.ofPod[pod] == nil {
			r.ofPod[pod] = map[*series]struct{}{}
		}
		r.ofPod[pod][s] = struct{}{}
	}
}

// current returns the series that queries see: the scraper may still refer to a dropped one.
func (r *recent) current(s *series) *series {
	if !s.gone {
		return s
	}
	if known := r.series[s.labels]; known != nil {
		return known
	}
	r.put(s)
	return s
}

// append keeps the samples that are newer than the last ones of their series, and returns them in place. Kubelets
// measure on their own schedule, so two scrapes may return the same sample. If memory has samples further in the future
// than a kubelet's clock may be, they come from a clock that was corrected since: new samples replace them.
func (r *recent) append(batch []scraped, now time.Time) []scraped {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	accepted := batch[:0]
	for _, b := range batch {
		b.series = r.current(b.series)
		b.series.setBack(now.Add(future).UnixMilli())
		if b.series.push(b.FPoint) {
			accepted = append(accepted, b)
		}
	}
	return accepted
}

// setBack drops the samples after a time.
func (s *series) setBack(latest int64) {
	for n := len(s.samples); n > 0 && s.samples[n-1].T > latest; n-- {
		s.samples = s.samples[:n-1]
	}
}

// push appends a sample; it returns false if the sample is not newer than the last one. Old samples are trimmed only
// when the slice is full, so most calls cost nothing more. The slice grows by a quarter, not to twice its length as
// with append, because most series have a constant number of samples.
func (s *series) push(next promql.FPoint) bool {
	if n := len(s.samples); n > 0 && next.T <= s.samples[n-1].T {
		return false
	}
	if len(s.samples) == cap(s.samples) {
		s.trim(next.T - keptFor.Milliseconds())
	}
	if n := len(s.samples); n == cap(s.samples) {
		s.samples = append(make([]promql.FPoint, 0, n+n/4+8), s.samples...)
	}
	s.samples = append(s.samples, next)
	return true
}

// byTime compares a sample with a time.
func byTime(s promql.FPoint, at int64) int { return cmp.Compare(s.T, at) }

// trim drops the samples before a time. It moves the others down, so that the slice reuses its memory, or into a
// smaller slice if few are left.
func (s *series) trim(before int64) {
	first, _ := slices.BinarySearchFunc(s.samples, before, byTime)
	kept := s.samples[first:]
	if cap(s.samples) > leastSamples && 3*len(kept) < cap(s.samples) {
		s.samples = slices.Clone(kept)
		return
	}
	s.samples = s.samples[:copy(s.samples, kept)]
}

// leastSamples is the capacity that a series always keeps.
const leastSamples = 64

// forget drops samples older than keptFor, series without other samples, and the oldest samples of namespaces with more
// than most. It returns the sorted names of these namespaces.
func (r *recent) forget(now time.Time) []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	before, held := now.Add(-keptFor).UnixMilli(), map[string]int{}
	for of, s := range r.series {
		s.trim(before)
		if n := len(s.samples); n > 0 {
			held[of.Get("namespace")] += n
			continue
		}
		s.gone = true
		delete(r.series, of)
		delete(r.byName[of.Get(labels.MetricName)], s)
		if pod, told := podOf(of); told {
			if delete(r.ofPod[pod], s); len(r.ofPod[pod]) == 0 {
				delete(r.ofPod, pod)
			}
		}
	}
	r.shorten(held, now)
	return slices.Sorted(maps.Keys(r.whole))
}

// shorten reduces how long samples are kept in namespaces with more than most. The new span has room for most samples
// at the same rate, and is at least needed. Samples of nodes have no namespace and are not bounded. The caller holds
// mutex.
func (r *recent) shorten(held map[string]int, now time.Time) {
	oldest, shortened := max(r.since, now.Add(-keptFor).UnixMilli()), false
	maps.DeleteFunc(r.whole, func(_ string, since int64) bool { return since <= oldest })
	for namespace, n := range held {
		if n <= r.most || namespace == "" {
			continue
		}
		span := now.UnixMilli() - max(oldest, r.whole[namespace])
		room := time.Duration(float64(span)*float64(r.most)/float64(n)) * time.Millisecond
		r.whole[namespace] = now.Add(-max(room, r.needed)).UnixMilli()
		shortened = true
	}
	if !shortened {
		return
	}
	for of, s := range r.series {
		if since := r.whole[of.Get("namespace")]; since > 0 {
			s.trim(since)
		}
	}
}

// need makes memory keep the samples of a window, up to maxNeeded, for every namespace.
func (r *recent) need(window time.Duration) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.needed = max(r.needed, min(window, maxNeeded))
}

// begin records that scraping begins now.
func (r *recent) begin(now time.Time) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.since = now.UnixMilli()
}

// began returns when scraping began, in UTC.
func (r *recent) began() time.Time {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return time.UnixMilli(r.since).UTC()
}

// count the series of a metric; of all metrics if it is empty.
func (r *recent) count(metric string) int {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if metric != "" {
		return len(r.byName[metric])
	}
	return len(r.series)
}

// querier answers the query engine with copies.
type querier struct {
	storage.Querier
	recent      *recent
	first, last int64
	// oldest is set if missing samples are an error: samples before it are not kept.
	oldest int64
	// most bounds the copied samples of all selectors of a query, of which copied are done; 0: no bound. The engine does
	// not count them.
	most, copied int
}

// queryable returns the memory for a query. If whole is true, a query that reads further back than memory is an error.
// most: see querier.
func (r *recent) queryable(whole bool, most int, now time.Time) storage.Queryable {
	return storage.QueryableFunc(func(first, last int64) (storage.Querier, error) {
		q := &querier{Querier: storage.NoopQuerier(), recent: r, first: first, last: last, most: most}
		if whole {
			q.oldest = now.Add(-keptFor).UnixMilli()
		}
		return q, nil
	})
}

// Select returns the series sorted by labels, regardless of its sort argument.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	if q.oldest > hints.Start {
		return storage.ErrSeriesSet(fmt.Errorf("%w for only %s, and the query looks further back", errNotKept, keptFor))
	}
	matching, err := q.recent.matching(ctx, matchers)
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	q.recent.mutex.RLock()
	defer q.recent.mutex.RUnlock()
	found := &seriesSet{at: -1}
	for _, s := range matching {
		if namespace := s.labels.Get("namespace"); q.oldest > 0 && q.recent.whole[namespace] > hints.Start {
			return storage.ErrSeriesSet(fmt.Errorf("%w only since %s in namespace %s, because there are more than %d, and the query looks further back",
				errNotKept, time.UnixMilli(q.recent.whole[namespace]).UTC().Format(time.TimeOnly), namespace, q.recent.most))
		}
		part := s.between(max(q.first, hints.Start), min(q.last, hints.End)) // most selectors look less far back than their query
		if q.copied += len(part); q.most > 0 && q.copied > q.most {
			return storage.ErrSeriesSet(fmt.Errorf("%w: its selectors read more than %d samples", usage.ErrTooMuch, q.most))
		}
		if len(part) > 0 {
			found.series = append(found.series, promql.Series{Metric: s.labels, Floats: part})
		}
	}
	slices.SortFunc(found.series, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	return found
}

// errNotKept is wrapped by the errors of queries that read further back than memory.
var errNotKept = errors.New("the embedded usage source keeps samples")

// seriesSet iterates over series in memory. It has no errors and no warnings.
type seriesSet struct {
	series []promql.Series
	at     int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series              { return promql.NewStorageSeries(s.series[s.at]) }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// matching returns the series that match, or the error of the context. A regular expression of a guardrail can take a
// millisecond for each value. So they are applied last, to the series with the right namespace, and without the mutex.
func (r *recent) matching(ctx context.Context, matchers []*labels.Matcher) (found []*series, err error) {
	var equal, others []*labels.Matcher
	for _, m := range matchers {
		if m.Type == labels.MatchEqual {
			equal = append(equal, m)
		} else {
			others = append(others, m)
		}
	}
	r.mutex.RLock()
	for name, all := range r.byName {
		if slices.ContainsFunc(equal, func(m *labels.Matcher) bool { return m.Name == labels.MetricName && m.Value != name }) {
			continue
		}
		for s := range all {
			if matches(equal, s.labels) {
				found = append(found, s)
			}
		}
	}
	r.mutex.RUnlock()
	found = slices.DeleteFunc(found, func(s *series) bool { return ctx.Err() == nil && !matches(others, s.labels) })
	return found, ctx.Err()
}

func matches(matchers []*labels.Matcher, of labels.Labels) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(of.Get(m.Name)) })
}

// between returns a copy of the samples from first to last. The engine reads it after the mutex is released.
func (s *series) between(first, last int64) []promql.FPoint {
	from, _ := slices.BinarySearchFunc(s.samples, first, byTime)
	to, _ := slices.BinarySearchFunc(s.samples, last+1, byTime)
	return slices.Clone(s.samples[from:max(from, to)])
}
