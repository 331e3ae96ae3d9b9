package raw

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"k8s.io/utils/clock"
)

// spans of packs: what is packed together is of one short span, and the packs of a span that is over are merged.
var spans = []time.Duration{2 * time.Hour, 24 * time.Hour}

const (
	// lateness is how long after the end of a span its last samples may arrive. A span is merged only after that.
	lateness = 30 * time.Minute
	// mostSpans bounds the packs that one call makes. Samples of more spans come from a wrong clock; they go into
	// one pack.
	mostSpans = 24
)

// Tend does the store's upkeep: it tries unreadable packs again, packs the buffer when that is due, merges the
// packs of at most one span, and drops what is too old or too much. free is the number of bytes that it may use on
// the disk. The caller calls it about once a minute; each call does a little. After an error the store must be
// closed.
func (s *Store) Tend(now time.Time, free int64) error {
	s.leaveOut()
	// Files that were left out come first: one that is readable again takes part in the merge below.
	if err := s.again(now); err != nil {
		return err
	}
	if first, last, any := s.buffer.span(); any && last-first >= packEvery.Milliseconds() {
		if err := s.pack(); err != nil {
			return err
		}
	}
	// At most one merge, so that the caller is not blocked for minutes.
	if err := s.mergeOne(now, free); err != nil {
		return err
	}
	// Expiry comes last. It counts the packs that this call has made.
	s.expire(now)
	return nil
}

// pack writes the buffer to packs, one for each span of two hours. The order matters:
//
//  1. The packs are written and synced.
//  2. Queries see the packs, and then no longer the buffer.
//  3. The journal is emptied.
//
// A crash after the first step leaves the samples in a pack and in the journal. The same samples are then packed
// twice, and a query returns each time once.
func (s *Store) pack() error {
	all := s.buffer.sorted(0, 1<<62, func(labels.Labels) bool { return true }, byPlace)
	var made []*pack
	for _, span := range spansOf(all) {
		p, err := packed(s.options.Dir, s.options.Volume, func(yield func(labels.Labels, chunkenc.Iterator) bool) {
			for _, series := range all {
				part := within(series.samples, span[0], span[1])
				if len(part) > 0 && !yield(series.labels, storage.NewListSeriesIterator(part)) {
					return
				}
			}
		})
		if err != nil {
			return err
		}
		if p != nil {
			made = append(made, p)
		}
	}
	s.put(made, nil)
	s.mutex.Lock()
	s.buffer = newBuffer()
	s.mutex.Unlock()
	return s.journal.empty()
}

// spansOf returns the first and the last time of each two-hour span that has samples; one unlimited span where
// there are more than mostSpans.
func spansOf(series []buffered) (all [][2]int64) {
	length := spans[0].Milliseconds()
	found := map[int64]bool{}
	for _, s := range series {
		for _, sample := range s.samples {
			found[floor(sample.At, length)] = true
		}
	}
	if len(found) > mostSpans {
		return [][2]int64{{0, 1 << 62}}
	}
	for _, begin := range slices.Sorted(maps.Keys(found)) {
		all = append(all, [2]int64{begin, begin + length - 1})
	}
	return all
}

// floor returns the beginning of the span of a length that holds the time at, all in milliseconds.
func floor(at, length int64) int64 { return at - at%length }

// packed writes series, which come in the order byPlace, to a pack and opens it; nil where there are no samples.
// The temporary file is removed in any case.
func packed(dir string, volume *Volume, series iter.Seq2[labels.Labels, chunkenc.Iterator]) (*pack, error) {
	w, err := newWriter(dir, volume)
	if err != nil {
		return nil, err
	}
	defer w.abandon()
	for of, samples := range series {
		if err := w.add(of, samples); err != nil {
			return nil, err
		}
	}
	return w.finish()
}

// mergeOne merges the packs of one span that is over, the shortest spans first. A merge needs as much room again
// as its packs take; a span for which there is no room stays as it is, which costs nothing but more files.
func (s *Store) mergeOne(now time.Time, free int64) error {
	over := now.Add(-lateness).UnixMilli()
	for _, span := range spans {
		length := span.Milliseconds()
		// Packs by the span that they lie in as a whole. A pack over several spans is never merged.
		together := map[int64][]*pack{}
		for _, p := range s.packs {
			if begin := floor(p.min, length); begin == floor(p.max, length) && begin+length <= over {
				together[begin] = append(together[begin], p)
			}
		}
		for _, begin := range slices.Sorted(maps.Keys(together)) {
			if packs := together[begin]; len(packs) > 1 && sizeOf(packs) < min(free, s.options.MaxBytes-s.size()) {
				return s.mergeOr(packs)
			}
		}
	}
	return nil
}

// sizeOf returns how many bytes the packs take on disk.
func sizeOf(packs []*pack) (bytes int64) {
	for _, p := range packs {
		bytes += p.size
	}
	return bytes
}

// size returns the bytes of packs, unreadable packs and journal.
func (s *Store) size() int64 {
	bytes := sizeOf(s.packs)
	for _, f := range s.left {
		bytes += f.Bytes
	}
	if info, err := s.journal.file.Stat(); err == nil {
		bytes += info.Size()
	}
	return bytes
}

// mergeOr merges packs. Where one of them is broken it drops the broken packs, and where one cannot be read it
// leaves that one out; the others are merged at the next call. Only an error of the disk is returned.
func (s *Store) mergeOr(packs []*pack) error {
	err := s.merge(packs)
	switch {
	case errors.Is(err, ErrBroken):
		return s.DropBroken()
	case errors.Is(err, ErrUnread):
		s.leaveOut()
		return nil
	}
	return err
}

// merge writes packs into one, then removes them. Where the process ends in between, both are there, and a query
// returns each sample once.
func (s *Store) merge(packs []*pack) error {
	var failed error
	p, err := packed(s.options.Dir, s.options.Volume, merged(packs, &failed))
	if err == nil {
		err = failed
	}
	if err != nil {
		// An error that ended the sequence of series leaves a pack that is incomplete: its file goes.
		if p != nil {
			_ = os.Remove(p.path)
		}
		return err
	}
	// Queries see the new pack before the old files are removed.
	s.put([]*pack{p}, packs)
	// Their descriptors stay open for queries that are still reading.
	for _, old := range packs {
		if err := os.Remove(old.path); err != nil {
			return err
		}
	}
	return nil
}

// expire drops the oldest packs while there are more than nine tenths of MaxBytes, and at most one pack that is
// too old. It drops only one, so that a clock that is ahead for a moment does not remove everything.
func (s *Store) expire(now time.Time) {
	// A tenth is left for the journal and for what is written until the next call.
	for s.size() > s.options.MaxBytes*9/10 && s.removeOldest(math.MaxInt64) {
	}
	s.removeOldest(now.Add(-s.options.Retention).UnixMilli())
}

// removeOldest removes the oldest pack, readable or not, if its last sample is before a time. It returns whether
// there was one. A file that cannot be removed is logged and forgotten until the next Open.
func (s *Store) removeOldest(before int64) bool {
	left := s.oldestLeft()
	if len(s.packs) > 0 && (left < 0 || s.packs[0].min <= s.left[left].Min) {
		left = -1
	}
	var path string
	switch {
	case left >= 0 && s.left[left].Max < before:
		path = s.left[left].Path
		s.left = slices.Delete(s.left, left, left+1)
	case left < 0 && len(s.packs) > 0 && s.packs[0].max < before:
		path = s.packs[0].path
		s.put(nil, s.packs[:1])
	default:
		return false
	}
	if err := os.Remove(path); err != nil {
		s.options.Log.Error("removing raw samples", "path", path, "cause", err.Error())
	}
	return true
}

// merged yields the series of several packs in the order byPlace, each once, with the samples of all packs. All
// packs are in that order already, so it is a merge of sorted lists that holds one group of each pack in memory.
// An error ends the sequence and is stored in *failed, where the caller must look.
func merged(packs []*pack, failed *error) iter.Seq2[labels.Labels, chunkenc.Iterator] {
	return func(yield func(labels.Labels, chunkenc.Iterator) bool) {
		walks := make([]*walk, len(packs))
		for i, p := range packs {
			walks[i] = &walk{pack: p}
			if *failed = walks[i].next(); *failed != nil {
				return
			}
		}
		for {
			least := leastOf(walks)
			if least == nil {
				return
			}
			of := least.at().labels
			var iterators []chunkenc.Iterator
			for _, w := range walks {
				if w.over() || labels.Compare(w.at().labels, of) != 0 {
					continue
				}
				iterators = append(iterators, w.at().iterator(context.Background(), 0, 1<<62))
				if *failed = w.next(); *failed != nil {
					return
				}
			}
			if !yield(of, storage.ChainSampleIteratorFromIterators(nil, iterators)) {
				return
			}
		}
	}
}

// walk goes through the series of one pack, one group in memory at a time. series[0] is the current one.
// begun is false before the first call of next.
type walk struct {
	pack   *pack
	groups int
	series []part
	begun  bool
}

// next goes to the next series, and reads the next group where the current one is over. The first call goes to the
// first series.
func (w *walk) next() error {
	if w.begun && len(w.series) > 0 {
		w.series = w.series[1:]
	}
	w.begun = true
	for len(w.series) == 0 && w.groups < len(w.pack.groups) {
		series, err := w.pack.group(context.Background(), w.pack.groups[w.groups])
		if err != nil {
			return err
		}
		w.groups++
		w.series = series
	}
	return nil
}

// over returns true behind the last series.
func (w *walk) over() bool { return len(w.series) == 0 }

// at returns the current series. It must not be called when the walk is over.
func (w *walk) at() *part { return &w.series[0] }

// leastOf returns the walk whose current series comes first in the order byPlace; nil where all are over.
func leastOf(walks []*walk) (least *walk) {
	for _, w := range walks {
		if !w.over() && (least == nil || byPlace(w.at().labels, least.at().labels) < 0) {
			least = w
		}
	}
	return least
}

// Write writes the samples of a past as one pack into the folder of a store that is not open. It makes the folder
// where it is missing, and holds all samples in memory.
func Write(dir string, past iter.Seq2[labels.Labels, Samples]) error {
	var all []buffered
	for of, samples := range past {
		all = append(all, buffered{labels: of, samples: samples})
	}
	slices.SortFunc(all, func(a, b buffered) int { return byPlace(a.labels, b.labels) })
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	p, err := packed(dir, NewVolume(clock.RealClock{}), func(yield func(labels.Labels, chunkenc.Iterator) bool) {
		for _, s := range all {
			if !yield(s.labels, storage.NewListSeriesIterator(s.samples)) {
				return
			}
		}
	})
	if err != nil || p == nil {
		return err
	}
	return p.file.Close()
}
