package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

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
		names[prefix(of.workload)] = true
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

// prefix is what the names of a workload's pods start with.
func prefix(workload workload.KindName) string { return usage.PodPrefix(workload.Name) }
