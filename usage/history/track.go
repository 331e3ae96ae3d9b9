package history

import (
	"slices"
	"strings"
	"time"
)

// track is the history of one workload, and how far its past has been read. Steps from the field from up to
// increments.read have been read; older ones are still missing.
type track struct {
	// from is the oldest step that has been read; uncovered before the first read.
	from int64
	// partial is true where an answer about the past was incomplete.
	partial bool
	// again is when a partial past is read again; zero means that no repetition is due.
	again time.Time
	// repeats counts how often a partial past was read again. Each time doubles the pause, up to mostRepeats
	// times.
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
