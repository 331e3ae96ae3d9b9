package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"attune.io/attune/internal/workload"
	"attune.io/attune/usage"
)

const (
	// overlap is how many steps are read again with what is new, for samples that came late.
	overlap = 2
	// maxChunk is what servers answer with at most.
	maxChunk = 11_000
	// minChunk is the shortest span of the past that is tried.
	minChunk = 12
	// scratchValues bounds what the answers that come at the same time take in memory: 8 bytes for each value, three
	// measures. The sources share it.
	scratchValues = 2 << 20
	// assumedContainers of a workload all of whose containers are wanted.
	assumedContainers = 4
	// partialPause is how long a past that was answered in part is left as it is, before it is read again: twice as long
	// each time, 32 hours at most.
	partialPause = time.Hour
	mostRepeats  = 5
	// partialReach is how far back what was new, and answered in part, is asked for again.
	partialReach = 24 * time.Hour
	// maxPrefixes is how many workloads are asked for by name; for more, the whole namespaces are read.
	maxPrefixes = 100
)

// plan is what to ask a pool's source next. A nil query is nothing to ask.
type plan struct {
	newest, past *usage.Query
	// group is the tracks that past is about.
	group     []*track
	resolvers map[string]*resolver
}

// plan decides at a time: what is new for every workload that has been read before, and the next piece of
// the past for those that need it.
func (p *pool) plan(now time.Time) plan {
	p.repeat(now)
	last := usage.StepOf(now, p.settings.QueryStep)
	p.setBack(last)
	plan := plan{newest: p.planNewest(last)}
	plan.past, plan.group = p.planPast(last, now)
	if plan.newest != nil || plan.past != nil {
		plan.resolvers = p.resolvers()
	}
	return plan
}

// repeat has the past read again where answers about it were partial. What was read stays.
func (p *pool) repeat(now time.Time) {
	p.each(func(_ string, _ workload.KindName, track *track) {
		if !track.again.IsZero() && !track.again.After(now) {
			track.from, track.partial, track.again = uncovered, false, time.Time{}
			track.repeats++
			p.counted = false
		}
	})
}

// follow the clock, before the pool is asked. Where it was ahead and is put right, nothing waits for a time that it had set.
func (p *pool) follow(now time.Time) {
	before := p.seen
	if p.seen = now; before.Sub(now) <= time.Minute {
		return
	}
	sooner := func(at *time.Time, pause time.Duration) {
		if latest := now.Add(pause); at.After(latest) {
			*at = latest
		}
	}
	for _, at := range []*time.Time{&p.retryAt, &p.redialAt, &p.whole, &p.began, &p.state.LastSuccess} {
		sooner(at, 0)
	}
	sooner(&p.mendAt, partialPause)
	for _, n := range p.namespaces {
		sooner(&n.rereadAt, partialPause)
	}
	p.each(func(_ string, _ workload.KindName, t *track) {
		sooner(&t.again, partialPause)
		if t.refusal != nil {
			sooner(&t.refusal.until, firstRest)
		}
	})
	p.past = pastPart{}
}

// setBack follows a clock that was ahead and was put right: what was asked for before it had come is read again, which is
// what comes after the newest value, and so is what had left the window by then.
func (p *pool) setBack(last int64) {
	if max(p.read, p.slid) <= last {
		return
	}
	p.newest, p.counted, p.slid = newestPart{}, false, last
	first, _ := p.span(last)
	known := last - min(p.window, int64(partialReach/p.settings.QueryStep))
	p.each(func(_ string, _ workload.KindName, track *track) {
		for _, of := range track.histories {
			track.from = max(track.from, of.cpu.first)
			of.setBack(first, last)
			of.restored = false // what a window that was ahead had no room for is taken again
			known = max(known, of.newest(known+1, last))
		}
		if track.from > last {
			track.from = uncovered
		}
	})
	p.read = min(p.read, known)
}

// newestPart says how a question about what is new is cut, when all of it is too much.
type newestPart struct {
	// steps and names are the most steps and namespaces that are asked for at once; 0: any number.
	steps int64
	names int
	// cut: something of the span was too much.
	cut bool
	// end is the last step of a span that is being read, and done are the namespaces that have been; 0: there is none.
	end  int64
	done map[string]bool
	// refused are those of them that were too much by themselves; answered: something of the span was not.
	refused  []string
	answered bool
}

// next span: as the last one, and twice as much where nothing of that was too much.
func (n newestPart) next() newestPart {
	if n.cut {
		return newestPart{steps: n.steps, names: n.names}
	}
	return newestPart{steps: min(2*n.steps, maxChunk), names: 2 * n.names}
}

// planNewest asks for what is new in all namespaces, or for a part of it where all was too much.
func (p *pool) planNewest(last int64) *usage.Query {
	if p.read == 0 && p.pastTurn > 0 {
		p.read = last - 1 // The past comes first, where it comes.
	}
	if p.read == 0 || p.read >= last || len(p.namespaces) == 0 {
		// What was too much may have been so for a moment only.
		p.newest = newestPart{}
		return nil
	}
	names := p.newestNames()
	if len(names) == 0 { // those that were left of a span are not wanted any more
		p.read, p.newest = p.newest.end, p.newest.next()
		return p.planNewest(last)
	}
	oldest, _ := p.span(last)
	first := max(oldest, p.read-overlap+1)
	end := p.newest.end
	if end == 0 {
		end = min(last, first+p.newestSteps()-1)
	}
	return p.query(names, first, max(first, end))
}

// newestSteps is how many steps of everything fit into memory, and what the server has shown it can answer.
func (p *pool) newestSteps() int64 {
	var all []*track
	p.each(func(_ string, _ workload.KindName, track *track) { all = append(all, track) })
	most := cmp.Or(p.newest.steps, maxChunk)
	return max(leastNewest, min(most, p.scratch/p.containersOf(all)))
}

// leastNewest steps are asked for at once: with fewer, nothing would be new beside what is read again.
const leastNewest = overlap + 1

// newestNames are the namespaces to ask for next, in alphabetical order. Those of which the last step was too much come
// last, each by itself.
func (p *pool) newestNames() (names []string) {
	var refused []string
	for _, name := range slices.Sorted(maps.Keys(p.namespaces)) {
		switch {
		case p.newest.done[name]:
		case p.namespaces[name].refused != nil:
			refused = append(refused, name)
		default:
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return refused[:min(1, len(refused))]
	}
	if p.newest.names > 0 && len(names) > p.newest.names {
		names = names[:p.newest.names]
	}
	return names
}

// pastPart says how a question about the past is cut, when all of it is too much.
type pastPart struct {
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

// keepPart is how long what a source has shown to be too much of the past is not asked of it.
const keepPart = time.Hour

// lacking is a track whose past has not been read as far as it is wanted.
type lacking struct {
	namespace string
	workload  workload.KindName
	*track
}

// planPast goes back from what has been read, for workloads of which the same has been read. Every other time these are
// those of which the newest past is missing, which is worth the most; in between it is the turn of the namespace that has
// waited for the longest time, so that workloads that are always new keep nobody else waiting for ever.
func (p *pool) planPast(last int64, now time.Time) (*usage.Query, []*track) {
	oldest, _ := p.span(last)
	if now.After(p.past.until) {
		p.past = pastPart{}
	}
	group, all := p.group(oldest, now)
	if len(group) == 0 {
		if p.newestStart(oldest) <= oldest {
			p.past = pastPart{}
		}
		return nil, nil
	}
	if p.past.tracks > 0 && len(group) > p.past.tracks {
		slices.SortFunc(group, func(a, b lacking) int {
			return cmp.Or(cmp.Compare(a.asked, b.asked), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.workload.Name, b.workload.Name), cmp.Compare(a.workload.Kind, b.workload.Kind))
		})
		group, all = group[:p.past.tracks], false
	}
	tracks := make([]*track, 0, len(group))
	namespaces, names := map[string]bool{}, map[string]bool{}
	for _, of := range group {
		tracks = append(tracks, of.track)
		namespaces[of.namespace] = true
		names[prefix(of.workload)] = true
	}
	end := min(last, group[0].from-1)
	query := p.query(slices.Sorted(maps.Keys(namespaces)), max(oldest, end-p.pastSteps(tracks)+1), end)
	if !all && len(names) <= maxPrefixes {
		query.PodPrefixes = slices.Sorted(maps.Keys(names))
	}
	return query, tracks
}

// group of tracks to ask for next, and whether these are all that there are. One of which something was too much by itself
// is a group of its own.
func (p *pool) group(oldest int64, now time.Time) (group []lacking, all bool) {
	var next *track
	var waiting [2]int64
	for _, n := range p.namespaces {
		for _, t := range n.tracks {
			if t.from <= oldest || t.rests(now) {
				continue
			}
			if waits := [2]int64{n.asked, t.asked}; next == nil || p.before(waits, waiting, t.from, next.from) {
				next, waiting = t, waits
			}
		}
	}
	if next == nil {
		return nil, false
	}
	all = true
	p.each(func(namespace string, workload workload.KindName, t *track) {
		if t == next || next.refusal == nil && t.refusal == nil && t.from == next.from {
			group = append(group, lacking{namespace, workload, t})
		} else {
			all = false
		}
	})
	return group, all
}

// before says whether it is the turn of one track and not of another one.
func (p *pool) before(waits, other [2]int64, from, otherFrom int64) bool {
	if c := slices.Compare(waits[:], other[:]); p.pastTurn%2 == 1 && c != 0 {
		return c < 0
	}
	return from > otherFrom
}

// newestStart is the newest step that any history starts with.
func (p *pool) newestStart(oldest int64) int64 {
	newest := oldest
	p.each(func(_ string, _ workload.KindName, track *track) { newest = max(newest, track.from) })
	return newest
}

// pastSteps is how many steps of some tracks' past fit into memory, and what the server has shown it can answer.
func (p *pool) pastSteps(group []*track) int64 {
	if refusal := group[0].refusal; refusal != nil {
		return refusal.steps
	}
	return min(cmp.Or(p.past.steps, maxChunk), max(pageSteps, p.scratch/p.containersOf(group)))
}

// cutPast asks for half as much of the past from now on, of its steps and of its workloads in turns. Once it is known which
// workload is too much by itself, that one alone is asked for less. It returns false where it is left alone for a while.
func (p *pool) cutPast(query usage.Query, group []*track, err error, now time.Time) bool {
	steps := query.Steps()
	if len(group) == 1 {
		if group[0].refusal == nil {
			p.past = pastPart{}
		}
		return group[0].refuse(steps, err, now)
	}
	p.past.until = now.Add(keepPart)
	if p.past.byTracks || steps <= minChunk {
		p.past.tracks, p.past.tooMuch = len(group)/2, 0
	} else {
		p.past.steps, p.past.tooMuch = max(minChunk, steps/2), steps
	}
	p.past.byTracks = !p.past.byTracks
	return true
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

// answer about so many steps of its past.
func (t *track) answer(steps int64) {
	r := t.refusal
	if r == nil {
		return
	}
	r.why, r.until, r.times = nil, time.Time{}, 0
	if 2*steps < r.tooMuch {
		r.steps = 2 * steps
	}
}

// grow the spans that are asked for, as long as they are not what was too much, once one was answered.
func (p *pool) grow(steps int64) {
	if more := 2 * p.past.steps; steps >= p.past.steps && p.past.steps > 0 && (p.past.tooMuch == 0 || more < p.past.tooMuch) {
		p.past.steps = min(more, maxChunk)
	}
}

const (
	// firstRest is how long a workload is left alone whose past is too much by itself; twice as long each time, up to
	// mostRest.
	firstRest = 5 * time.Minute
	mostRest  = 40 * time.Minute
)

// containersOf tracks that are wanted, at least 1.
func (*pool) containersOf(tracks []*track) int64 {
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

func (p *pool) query(namespaces []string, first, last int64) *usage.Query {
	return &usage.Query{
		Namespaces: namespaces,
		Start:      usage.StepEnd(first, p.settings.QueryStep),
		End:        usage.StepEnd(last, p.settings.QueryStep),
		Step:       p.settings.QueryStep,
		RateWindow: p.settings.RateWindow,
	}
}

// prefix is what the names of a workload's pods start with.
func prefix(workload workload.KindName) string { return usage.PodPrefix(workload.Name) }
