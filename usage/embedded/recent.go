package embedded

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"attune.io/attune/usage/embedded/raw"
)

// recent holds the newest samples of every series in memory. Decisions use it alone, so that a disk that is slow,
// full or broken changes nothing but graphs and the past after a restart. mutex guards all fields and the samples
// of all series. The window bounds the samples of a series, maxSeries and the number of nodes bound the series.
type recent struct {
	mutex  sync.RWMutex
	series map[labels.Labels]*series
	// byName has the same series by metric, for queries and counts.
	byName map[string]map[*series]struct{}
	// ofPod has those of each pod that Lately tells of.
	ofPod map[Pod]map[*series]struct{}
	// window is how long samples are kept at least: the longest window of a query of the last one to two hours.
	window time.Duration
	// least is the shortest window, and whole the time since which every sample is in memory, whatever the window.
	least time.Duration
	whole int64
	// asked remembers the windows of queries.
	asked askedWindow
	// since is when scraping began: earlier samples are not in memory. It and whole are Unix milliseconds.
	since int64
}

// series is one of a scrape. The mutex of recent guards its samples.
type series struct {
	labels labels.Labels
	// samples are in the order of their times.
	samples raw.Samples
	// gone: it was forgotten, and queries do not see it.
	gone bool
}

// scraped is a sample on its way into the store.
type scraped struct {
	series *series
	raw.Sample
}

// newRecent makes an empty memory with a window that never becomes shorter than the given one.
func newRecent(window time.Duration, now time.Time) *recent {
	return &recent{
		series: map[labels.Labels]*series{}, byName: map[string]map[*series]struct{}{}, ofPod: map[Pod]map[*series]struct{}{},
		window: window, least: window, since: now.UnixMilli(), asked: askedWindow{since: now},
	}
}

// intern is the one series with these labels, whichever kubelet reports it and however its text is written.
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

// put adds a series to both maps. The caller holds mutex.
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

// current is the series that queries see: the scraper may still know one that was forgotten.
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

// append keeps the samples that are newer than the last ones of their series, and returns them in place. A kubelet
// measures at times of its own, so one that is asked twice may answer the same twice. Samples in memory that lie
// further ahead of now than a kubelet's clock may be come from a clock that has been put right since: new samples
// replace them.
func (r *recent) append(batch []scraped, now time.Time) []scraped {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	accepted := batch[:0]
	for _, b := range batch {
		b.series = r.current(b.series)
		b.series.setBack(now.Add(future).UnixMilli())
		if b.series.push(b.Sample, r.window.Milliseconds()) {
			accepted = append(accepted, b)
		}
	}
	return accepted
}

// setBack forgets the samples after a time.
func (s *series) setBack(latest int64) {
	for n := len(s.samples); n > 0 && s.samples[n-1].At > latest; n-- {
		s.samples = s.samples[:n-1]
	}
}

// push appends a sample; false where it is not newer than the last one. Old samples are trimmed only when the
// slice is full, so that most calls cost nothing more.
func (s *series) push(next raw.Sample, window int64) bool {
	if n := len(s.samples); n > 0 && next.At <= s.samples[n-1].At {
		return false
	}
	if len(s.samples) == cap(s.samples) {
		s.trim(next.At - window)
	}
	s.samples = append(s.samples, next)
	return true
}

// trim forgets the samples before a time. It moves the others down, so that the slice reuses its memory.
func (s *series) trim(before int64) {
	first, _ := slices.BinarySearchFunc(s.samples, before, func(s raw.Sample, at int64) int { return int(s.At - at) })
	s.samples = s.samples[:copy(s.samples, s.samples[first:])]
}

// release the memory of samples that are kept no longer, where that is most of it.
func (s *series) release(before int64) {
	if cap(s.samples) <= leastSamples {
		return
	}
	first, _ := slices.BinarySearchFunc(s.samples, before, func(s raw.Sample, at int64) int { return int(s.At - at) })
	if kept := s.samples[first:]; 3*len(kept) < cap(s.samples) {
		s.samples = slices.Clone(kept)
	}
}

// leastSamples is the capacity that a series keeps in any case.
const leastSamples = 64

// forget the series that have no sample in the window any more.
func (r *recent) forget(now time.Time) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.shorten(now)
	before := now.Add(-r.window).UnixMilli()
	for of, s := range r.series {
		if n := len(s.samples); n > 0 && s.samples[n-1].At >= before {
			s.release(before)
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
}

// askedWindow remembers the longest window that queries have asked for: now since a time, before in the hour
// before that. Thus a window is kept for one to two hours after the last query for it.
type askedWindow struct {
	since       time.Time
	now, before time.Duration
}

// rememberAsked is how long a window is kept at least after the last query for it.
const rememberAsked = time.Hour

// keepFor makes the window at least as long, up to maxWindow: only the disk has room for more.
func (r *recent) keepFor(window time.Duration, now time.Time) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.asked.now = max(r.asked.now, min(window, maxWindow))
	r.shorten(now)
}

// shorten sets the window to the longest one that is still asked for. Where the window grows, older samples are
// missing from memory at first: whole records since when all are there.
func (r *recent) shorten(now time.Time) {
	if age := now.Sub(r.asked.since); age >= rememberAsked || age < 0 {
		r.asked = askedWindow{since: now, before: r.asked.now}
	}
	window := max(r.least, r.asked.now, r.asked.before)
	if window > r.window { // samples that the shorter window let go of are not in memory
		r.whole = max(r.whole, now.Add(-r.window).UnixMilli())
	}
	r.window = window
}

// begin notes that scraping begins now.
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

// covers returns whether memory has every sample since a time. Where it is false, a query needs the disk too.
func (r *recent) covers(since int64, now time.Time) bool {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return since >= max(r.since, r.whole, now.Add(-r.window).UnixMilli())
}

// count the series of a metric, or of all.
func (r *recent) count(metric string) int {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if metric != "" {
		return len(r.byName[metric])
	}
	return len(r.series)
}

// recentQuerier answers the query engine with copies.
type recentQuerier struct {
	storage.Querier
	recent      *recent
	first, last int64
}

// Querier implements storage.Queryable. The error is always nil.
func (r *recent) Querier(first, last int64) (storage.Querier, error) {
	return recentQuerier{Querier: storage.NoopQuerier(), recent: r, first: first, last: last}, nil
}

// Select answers in the order of the labels, whether or not that was asked for.
func (q recentQuerier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	q.recent.mutex.RLock()
	defer q.recent.mutex.RUnlock()
	var found []storage.Series
	q.recent.each(matchers, func(s *series) {
		if part := s.between(q.first, q.last); len(part) > 0 {
			found = append(found, part.Series(s.labels))
		}
	})
	return raw.Sorted(found)
}

// each visits the series that match.
func (r *recent) each(matchers []*labels.Matcher, visit func(*series)) {
	for name, all := range r.byName {
		if !matches(matchers, func(label string) (string, bool) { return name, label == labels.MetricName }) {
			continue
		}
		for s := range all {
			if matches(matchers, func(label string) (string, bool) { return s.labels.Get(label), label != labels.MetricName }) {
				visit(s)
			}
		}
	}
}

// matches asks only about the labels that value knows.
func matches(matchers []*labels.Matcher, value func(label string) (string, bool)) bool {
	for _, m := range matchers {
		if v, known := value(m.Name); known && !m.Matches(v) {
			return false
		}
	}
	return true
}

// between returns a copy of the samples from first to last. The engine reads it after the mutex is released.
func (s *series) between(first, last int64) raw.Samples {
	byTime := func(s raw.Sample, at int64) int { return int(s.At - at) }
	from, _ := slices.BinarySearchFunc(s.samples, first, byTime)
	to, _ := slices.BinarySearchFunc(s.samples, last+1, byTime)
	return slices.Clone(s.samples[from:max(from, to)])
}
