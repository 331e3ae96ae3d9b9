package history

import (
	"slices"
	"strings"
	"time"
)

// track is one workload's history, and how far its past has been read.
type track struct {
	// from is the oldest step that has been read; uncovered before the first read.
	from int64
	// partial: an answer about its past was. It is read again at the time again; zero: never. It was, repeats times.
	partial bool
	again   time.Time
	repeats int
	// asked is the turn in which its past was asked for last, or in which it came.
	asked int64
	// refusal of its past, of which something was too much by itself; nil: nothing was.
	refusal   *refusal
	wanted    containers
	histories []named
}

// refusal is of a workload whose past is asked for by itself: so many steps at once, and fewer than were too much. why is
// nil while it is answered so; else it is not asked for before until, after so many times.
type refusal struct {
	steps, tooMuch int64
	why            error
	until          time.Time
	times          int
}

// rests: the least of its past was too much a while ago.
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

// uncovered is newer than any step.
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

// refuse: so many steps of its past by itself are too much. Fewer are asked for, down to the least, which is left alone for
// a while: then it returns false.
func (t *track) refuse(steps int64, err error, now time.Time) bool {
	if t.refusal == nil {
		t.refusal = &refusal{}
	}
	r := t.refusal
	r.tooMuch, r.steps = steps, max(minChunk, steps/2)
	if steps > minChunk {
		return true
	}
	r.why, r.until = err, now.Add(min(firstRest<<min(r.times, 10), mostRest))
	r.times++
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

// assumedContainers of a workload all of whose containers are wanted.
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
