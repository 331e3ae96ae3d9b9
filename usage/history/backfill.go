package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"attune.io/attune/internal/backoff"
	"attune.io/attune/usage"
)

// backfill reads the past of a source, backwards and piece by piece, for new workloads. A query covers tracks that have
// been read back to the same step. Its answer moves their track.from to the first step of the query. If the source
// rejects a query as too large, the next one has half of its steps or half of its tracks, in turns. In the end only one
// track is rejected: it gets smaller queries of its own, and finally backs off (refusal). Answers let the steps grow
// again.
type backfill struct {
	cut backfillCut
	// turn counts the queries.
	turn int64
}

// backfillCut limits the next query about the past, after the source rejected one as too large.
type backfillCut struct {
	// steps and tracks limit one query; 0: no limit.
	steps  int64
	tracks int
	// tooMuch is the shortest span that was rejected for this number of tracks; 0: none.
	tooMuch int64
	// byTracks: the next rejection halves the tracks.
	byTracks bool
	// until is when the limits end, because the rejections may have been temporary.
	until time.Time
}

// keepCut is how long the limits of a backfillCut apply.
const keepCut = time.Hour

// lacking is a track whose past has not been read back to the beginning of the window.
type lacking struct {
	namespace string
	wish
	*track
}

// maxPrefixes is how many workloads are queried by name; for more, whole namespaces are read.
const maxPrefixes = 100

// plan continues backwards from the oldest steps read, for workloads that have been read back to the same step. Every
// other time it chooses workloads without recent data, which is worth the most. The other times it chooses the
// namespace that has waited longest. So a stream of new workloads cannot delay the others forever.
func (b *backfill) plan(x *index, last, room int64, now time.Time) (*usage.Query, []*track) {
	oldest, _ := x.span(last)
	if now.After(b.cut.until) {
		b.cut = backfillCut{}
	}
	group, all := b.group(x, oldest, now)
	if len(group) == 0 {
		newest := oldest
		x.each(func(_ string, _ wish, track *track) { newest = max(newest, track.from) })
		if newest == oldest {
			b.cut = backfillCut{}
		}
		return nil, nil
	}
	if b.cut.tracks > 0 && len(group) > b.cut.tracks {
		slices.SortFunc(group, func(a, b lacking) int {
			return cmp.Or(cmp.Compare(a.asked, b.asked), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.workload.Name, b.workload.Name), cmp.Compare(a.workload.Kind, b.workload.Kind))
		})
		group, all = group[:b.cut.tracks], false
	}
	tracks := make([]*track, 0, len(group))
	namespaces, names := map[string]bool{}, map[string]bool{}
	for _, of := range group {
		tracks = append(tracks, of.track)
		namespaces[of.namespace] = true
		for _, prefix := range of.prefixes() {
			names[prefix] = true
		}
	}
	end := min(last, group[0].from-1)
	query := x.query(slices.Sorted(maps.Keys(namespaces)), max(oldest, end-b.steps(tracks, room)+1), end)
	if !all && len(names) <= maxPrefixes {
		query.PodPrefixes = slices.Sorted(maps.Keys(names))
	}
	return query, tracks
}

// group returns the tracks to read next, and whether no other track lacks anything. Tracks of a group have been read
// back to the same step, so that one query fits all of them. A track with a refusal is a group of its own.
func (b *backfill) group(x *index, oldest int64, now time.Time) (group []lacking, all bool) {
	var next *track
	var waiting [2]int64
	for _, n := range x.namespaces {
		for _, t := range n.tracks {
			if t.from <= oldest || t.rests(now) {
				continue
			}
			if waits := [2]int64{n.asked, t.asked}; next == nil || b.before(waits, waiting, t.from, next.from) {
				next, waiting = t, waits
			}
		}
	}
	if next == nil {
		return nil, false
	}
	all = true
	x.each(func(namespace string, of wish, t *track) {
		if t == next || next.refusal == nil && t.refusal == nil && t.from == next.from {
			group = append(group, lacking{namespace, of, t})
		} else {
			all = false
		}
	})
	return group, all
}

// before reports whether one track has its turn before another.
func (b *backfill) before(waits, other [2]int64, from, otherFrom int64) bool {
	if c := slices.Compare(waits[:], other[:]); b.turn%2 == 1 && c != 0 {
		return c < 0
	}
	return from > otherFrom
}

// steps is the number of past steps to query for the tracks. It is limited by the memory of an answer and by the spans
// that the server has answered.
func (b *backfill) steps(group []*track, room int64) int64 {
	if refusal := group[0].refusal; refusal != nil {
		return refusal.steps
	}
	return min(cmp.Or(b.cut.steps, maxChunk), max(pageSteps, room/containersOf(group)))
}

// refuse halves the next query about the past, by steps and by workloads in turns. If a single workload is too large,
// only its own queries shrink. It returns false if that workload backs off.
func (b *backfill) refuse(query usage.Query, group []*track, err error, now time.Time) bool {
	steps := query.Steps()
	if len(group) == 1 {
		if group[0].refusal == nil {
			b.cut = backfillCut{}
		}
		return group[0].refuse(steps, err, now)
	}
	b.cut.until = now.Add(keepCut)
	if b.cut.byTracks || steps <= minChunk {
		b.cut.tracks, b.cut.tooMuch = len(group)/2, 0
	} else {
		b.cut.steps, b.cut.tooMuch = max(minChunk, steps/2), steps
	}
	b.cut.byTracks = !b.cut.byTracks
	return true
}

// grow doubles the span of a query after an answer, as long as the span stays below the rejected one.
func (b *backfill) grow(steps int64) {
	if more := 2 * b.cut.steps; steps >= b.cut.steps && b.cut.steps > 0 && (b.cut.tooMuch == 0 || more < b.cut.tooMuch) {
		b.cut.steps = min(more, maxChunk)
	}
}

// turnOf records that the group was queried in this turn.
func (b *backfill) turnOf(x *index, query usage.Query, group []*track) {
	b.turn++
	for _, name := range query.Namespaces {
		if n := x.namespaces[name]; n != nil {
			n.asked = b.turn
		}
	}
	for _, track := range group {
		track.asked = b.turn
	}
}

// track is the history of one workload, and how far its past has been read. Steps from the field from up to
// increments.read have been read; older ones are still missing.
type track struct {
	// from is the oldest step that has been read; uncovered before the first read.
	from int64
	// partial is true if an answer about the past was incomplete.
	partial bool
	// awaited: a policy waits for new usage, because the history is out of date and pods run.
	awaited bool
	// again is when a partial past is read again; zero means that no repetition is due.
	again time.Time
	// repeats counts how often a partial past was read again. Each time doubles the backoff, up to mostPartialPause.
	repeats int
	// asked is the backfill turn of the last query about the past. For a new track it is the turn in which it was
	// added.
	asked int64
	// refusal is set if a query about this track alone was too large for the source; nil otherwise.
	refusal *refusal
	// wanted names the containers whose history is kept; nil means all of them.
	wanted    containers
	histories []named
	// fleet has the mean usage of the pods; nil: it is not wanted.
	fleet *fleet
}

// refusal is the state of a workload whose past needs queries of its own, because the source rejected larger ones.
type refusal struct {
	// steps limits the next query. tooMuch is the last span that was rejected, and steps stays below it.
	steps, tooMuch int64
	// why is the last error; nil while queries of this size are answered. The workload backs off until the time until.
	why   error
	until time.Time
	// times counts consecutive rejections of the smallest span. Each one doubles the backoff, from firstRest up to
	// mostRest.
	times int
}

// rests reports whether the workload is in backoff, because even the smallest span of its past was rejected.
func (t *track) rests(now time.Time) bool { return t.refusal != nil && now.Before(t.refusal.until) }

// named is the history of a container. Workloads have few of them.
type named struct {
	container string
	*history
}

// history of a container, or nil.
func (t *track) history(container string) *history {
	for _, of := range t.histories {
		if of.container == container {
			return of.history
		}
	}
	return nil
}

// add an empty history.
func (t *track) add(container string, share *share) *history {
	added := newHistory(share)
	t.histories = append(t.histories, named{strings.Clone(container), added})
	return added
}

// names of the containers, in alphabetical order.
func (t *track) names() []string {
	var names []string
	for _, of := range t.histories {
		names = append(names, of.container)
	}
	slices.Sort(names)
	return names
}

// uncovered is the value of track.from while nothing has been read. It is newer than any step.
const uncovered = int64(1) << 62

// narrow releases the histories of containers that are not wanted.
func (t *track) narrow(wanted containers) {
	t.wanted = wanted
	t.histories = slices.DeleteFunc(t.histories, func(of named) bool {
		if wanted.has(of.container) {
			return false
		}
		of.release()
		return true
	})
}

// refuse records that a query for so many steps of this track alone was too large. The next query has half as many. If
// not even minChunk steps are answered, the track backs off and refuse returns false.
func (t *track) refuse(steps int64, err error, now time.Time) bool {
	if t.refusal == nil {
		t.refusal = &refusal{}
	}
	r := t.refusal
	r.tooMuch, r.steps = steps, max(minChunk, steps/2)
	if steps > minChunk {
		return true
	}
	r.times++
	r.why, r.until = err, now.Add(backoff.Wait(firstRest, mostRest, r.times))
	return false
}

// answered records that a query for so many steps was answered. It ends the backoff, and may double the next query.
func (t *track) answered(steps int64) {
	r := t.refusal
	if r == nil {
		return
	}
	r.why, r.until, r.times = nil, time.Time{}, 0
	if 2*steps < r.tooMuch {
		r.steps = 2 * steps
	}
}

const (
	// minChunk is the shortest span of the past that is queried, in steps.
	minChunk = 12
	// firstRest is the first backoff of a workload whose past is too large by itself. It doubles each time, up to
	// mostRest.
	firstRest = 5 * time.Minute
	mostRest  = 40 * time.Minute
)

// assumedContainers is the number of containers that is assumed for a workload if all of its containers are wanted. It
// only helps to estimate the size of an answer.
const assumedContainers = 4

// containersOf counts the wanted containers of the tracks; at least 1.
func containersOf(tracks []*track) int64 {
	containers := 0
	for _, track := range tracks {
		if track.wanted != nil {
			containers += len(track.wanted)
		} else {
			containers += assumedContainers
		}
	}
	return int64(max(1, containers))
}
