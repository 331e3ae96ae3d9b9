package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"attune.io/attune/internal/backoff"
	"attune.io/attune/internal/workload"
	"attune.io/attune/usage"
)

// backfill is how the past is read of a source, backwards and piece by piece, for workloads that are new. A question is about
// tracks that have been read back to the same step; its answer moves their track.from to the first step that was asked for.
// Where the source finds a question too much, it is cut: by half of its steps and by half of its tracks in turns, until one
// track alone is at fault: that one is asked for less by itself, and rests in the end (refusal). Answers let the steps grow.
type backfill struct {
	cut backfillCut
	// turn counts the questions.
	turn int64
}

// backfillCut says how a question about the past is cut, when all of it is too much.
type backfillCut struct {
	// steps and tracks are the most that are asked for at once; 0: any number.
	steps  int64
	tracks int
	// tooMuch is the shortest span that was too much of so many tracks; 0: none was.
	tooMuch int64
	// byTracks: tracks are the next to be cut.
	byTracks bool
	// until when it is kept: what was too much may have been so for a while only.
	until time.Time
}

// keepCut is how long what a source has shown to be too much of the past is not asked of it.
const keepCut = time.Hour

// lacking is a track whose past has not been read back to the beginning of the window.
type lacking struct {
	namespace string
	workload  workload.KindName
	*track
}

// maxPrefixes is how many workloads are asked for by name; for more, the whole namespaces are read.
const maxPrefixes = 100

// plan goes back from what has been read, for workloads of which the same has been read. Every other time these are
// those of which the newest past is missing, which is worth the most; in between it is the turn of the namespace that has
// waited for the longest time, so that workloads that are always new do not keep the others waiting for ever.
func (b *backfill) plan(x *index, last, room int64, now time.Time) (*usage.Query, []*track) {
	oldest, _ := x.span(last)
	if now.After(b.cut.until) {
		b.cut = backfillCut{}
	}
	group, all := b.group(x, oldest, now)
	if len(group) == 0 {
		if x.newestStart(oldest) <= oldest {
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
		names[usage.PodPrefix(of.workload.Name)] = true
	}
	end := min(last, group[0].from-1)
	query := x.query(slices.Sorted(maps.Keys(namespaces)), max(oldest, end-b.steps(tracks, room)+1), end)
	if !all && len(names) <= maxPrefixes {
		query.PodPrefixes = slices.Sorted(maps.Keys(names))
	}
	return query, tracks
}

// group returns the tracks to ask for next, and whether no other track lacks anything. Tracks of a group have been
// read back to the same step, so that one query fits all of them. A track with a refusal is a group of its own.
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
	x.each(func(namespace string, workload workload.KindName, t *track) {
		if t == next || next.refusal == nil && t.refusal == nil && t.from == next.from {
			group = append(group, lacking{namespace, workload, t})
		} else {
			all = false
		}
	})
	return group, all
}

// before says whether it is the turn of one track and not of another one.
func (b *backfill) before(waits, other [2]int64, from, otherFrom int64) bool {
	if c := slices.Compare(waits[:], other[:]); b.turn%2 == 1 && c != 0 {
		return c < 0
	}
	return from > otherFrom
}

// steps is how many steps of some tracks' past fit into memory, and what the server has shown it can answer.
func (b *backfill) steps(group []*track, room int64) int64 {
	if refusal := group[0].refusal; refusal != nil {
		return refusal.steps
	}
	return min(cmp.Or(b.cut.steps, maxChunk), max(pageSteps, room/containersOf(group)))
}

// refuse asks for half as much of the past from now on, of its steps and of its workloads in turns. Once it is known which
// workload is too much by itself, that one alone is asked for less. It returns false where it is left alone for a while.
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

// grow the spans that are asked for, as long as they are not what was too much, once one was answered.
func (b *backfill) grow(steps int64) {
	if more := 2 * b.cut.steps; steps >= b.cut.steps && b.cut.steps > 0 && (b.cut.tooMuch == 0 || more < b.cut.tooMuch) {
		b.cut.steps = min(more, maxChunk)
	}
}

// turnOf a group: it was asked for now.
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
	// partial is true where an answer about the past was incomplete.
	partial bool
	// again is when a partial past is read again; zero means that no repetition is due.
	again time.Time
	// repeats counts how often a partial past was read again. Each time doubles the pause, up to
	// mostPartialPause.
	repeats int
	// asked is the backfill turn in which the past was last asked for. For a new track it is the turn in which it
	// came.
	asked int64
	// refusal is set where a query about this track alone was too much for the source; nil otherwise.
	refusal *refusal
	// wanted names the containers whose history is kept; nil means all of them.
	wanted    containers
	histories []named
}

// refusal is the state of a workload whose past has to be asked for by itself, because the source found it too
// much.
type refusal struct {
	// steps is the most that the next query asks for. tooMuch is the last span that was refused, and steps stays
	// below it.
	steps, tooMuch int64
	// why is the last error, and nil while queries of this size are answered. The workload rests until the time
	// until.
	why   error
	until time.Time
	// times counts the refusals of the smallest span in a row. Each one doubles the rest, from firstRest up to
	// mostRest.
	times int
}

// rests returns true while the workload is left alone, because even the smallest span of its past was too much.
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

// narrow forgets the containers that are not wanted.
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

// refuse records that a query for so many steps of this track alone was too much. The next query asks for half as
// many. Where not even minChunk steps are answered, the track rests for a while and refuse returns false.
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

// answered: so many steps of its past were not too much.
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
	// minChunk is the shortest span of the past that is tried, in steps.
	minChunk = 12
	// firstRest is how long a workload is left alone whose past is too much by itself; twice as long each time, up to
	// mostRest.
	firstRest = 5 * time.Minute
	mostRest  = 40 * time.Minute
)

// assumedContainers is the number of containers that is assumed for a workload all of whose containers are wanted.
// It is only used to estimate the size of an answer.
const assumedContainers = 4

// containersOf tracks that are wanted, at least 1.
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
