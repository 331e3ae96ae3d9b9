package store

import (
	"time"

	"attune.io/attune/usage"
	"attune.io/attune/usage/podname"
)

// path names a workload across the namespaces of a pool.
type path struct {
	namespace string
	podname.Workload
}

// pool is everything that is read from one source. The store's mutex guards it, but for what is said to be immutable.
type pool struct {
	settings usage.SourceSettings // immutable
	window   int64                // steps, immutable
	budget   *budget

	resolver *resolver // replaced, never changed
	tracks   map[path]*track
	// source is nil before the first read, and after a failure.
	source usage.Source
	// read is the newest step that has been read for every covered track; 0: none.
	read int64
	// chunk is the most steps of the past that are asked for at once.
	chunk int64
	state State
}

// track is one workload's history.
type track struct {
	// from is the oldest step that has been read; uncovered before the first read.
	from      int64
	wanted    containers
	histories map[string]*history
}

// uncovered is newer than any step.
const uncovered = int64(1) << 62

func newPool(settings usage.SourceSettings, budget *budget) *pool {
	return &pool{
		settings: settings,
		window:   max(1, int64(settings.HistoryWindow/settings.QueryStep)),
		budget:   budget,
		tracks:   map[path]*track{},
		chunk:    maxChunk,
		state:    State{},
	}
}

// want replaces what is wanted. A workload that is new, or of which more is wanted than before, is read again from
// its beginning.
func (p *pool) want(interests []Interest) {
	p.resolver = newResolver(interests)
	for at, track := range p.tracks {
		if _, still := p.resolver.wanted[at]; !still {
			track.narrow(containers{})
			delete(p.tracks, at)
		}
	}
	for at, wanted := range p.resolver.wanted {
		known := p.tracks[at]
		switch {
		case known == nil:
			p.tracks[at] = &track{from: uncovered, wanted: wanted, histories: map[string]*history{}}
		case known.wanted.include(wanted):
			known.narrow(wanted)
		default:
			// A new track: a read that is on its way does not know what is wanted now, and must not count for it.
			known.narrow(wanted)
			p.tracks[at] = &track{from: uncovered, wanted: wanted, histories: known.histories}
		}
	}
}

// narrow forgets the containers that are not wanted.
func (t *track) narrow(wanted containers) {
	t.wanted = wanted
	for name, history := range t.histories {
		if !wanted.has(name) {
			history.release()
			delete(t.histories, name)
		}
	}
}

// span is the history window that ends with the step.
func (p *pool) span(last int64) (int64, int64) { return last - p.window + 1, last }

// current is the pool's state with what changes by the moment.
func (p *pool) current() State {
	state := p.state
	state.BackfillProgress = p.progress()
	for _, track := range p.tracks {
		state.Containers += len(track.histories)
		for _, history := range track.histories {
			state.Bytes += history.bytes()
		}
	}
	return state
}

func (p *pool) progress() float64 {
	least := 1.0
	for _, track := range p.tracks {
		if track.from == uncovered {
			return 0
		}
		least = min(least, float64(p.read-track.from+1)/float64(p.window))
	}
	return max(0, least)
}

// fail keeps why a read failed. The source is made anew next time: perhaps a secret has changed.
func (p *pool) fail(err error) {
	p.state.Err = err
	p.source = nil
}

func (p *pool) succeed(report usage.Report, now time.Time) {
	p.state.Err = nil
	p.state.LastSuccess = now
	p.state.Last = report
	p.state.Report.Add(report)
}
