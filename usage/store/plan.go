package store

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"attune.io/attune/usage"
	"attune.io/attune/usage/podname"
)

const (
	// overlap is how many steps are read again with what is new, for samples that came late.
	overlap = 2
	// maxChunk is what servers answer with at most.
	maxChunk = 11_000
	// minChunk is the shortest span of the past that is tried.
	minChunk = 12
	// scratchValues bounds what one answer about the past takes in memory: 8 bytes for each value, three
	// measures.
	scratchValues = 8 << 20
	// assumedContainers of a workload all of whose containers are wanted.
	assumedContainers = 4
	// partialPause is how long a past that was answered in part is left as it is, before it is read again: twice as long
	// each time, and mostRepeats times at most. A source that always lacks something has no more to say.
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
	plan.past, plan.group = p.planPast(last)
	if plan.newest != nil || plan.past != nil {
		plan.resolvers = p.resolvers()
	}
	return plan
}

// repeat has the past read again where answers about it were partial. What was read stays.
func (p *pool) repeat(now time.Time) {
	p.each(func(_ string, _ podname.Workload, track *track) {
		if !track.again.IsZero() && !track.again.After(now) {
			track.from, track.again = uncovered, time.Time{}
			track.repeats++
			p.counted = false
		}
	})
}

// setBack follows a clock that was ahead and was put right: what was read of a time that has not come yet is read again,
// and so is what had left the window by then.
func (p *pool) setBack(last int64) {
	if p.read <= last {
		return
	}
	p.read, p.newest = last, newestPart{}
	p.counted = false
	first, _ := p.span(last)
	p.each(func(_ string, _ podname.Workload, track *track) {
		for _, of := range track.histories {
			track.from = max(track.from, of.cpu.first)
			of.setBack(first, last)
		}
		if track.from > last {
			track.from = uncovered
		}
	})
}

// newestPart says how a question about what is new is cut, when all of it is too much.
type newestPart struct {
	// steps and names are the most steps and namespaces that are asked for at once; 0: any number.
	steps int64
	names int
	// end is the last step of a span of which only the namespaces up to after have been read; 0: there is none.
	end   int64
	after string
	// answered: something of the span was.
	answered bool
}

// planNewest asks for what is new in all namespaces, or for a part of it where all was too much.
func (p *pool) planNewest(last int64) *usage.Query {
	if p.read == 0 || p.read >= last || len(p.namespaces) == 0 {
		// What was too much may have been so for a moment only.
		p.newest = newestPart{}
		return nil
	}
	names := p.newestNames()
	if len(names) == 0 { // those that were left of a span are not wanted any more
		p.read, p.newest.end, p.newest.answered = p.newest.end, 0, false
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
	p.each(func(_ string, _ podname.Workload, track *track) { all = append(all, track) })
	most := cmp.Or(p.newest.steps, maxChunk)
	return max(leastNewest, min(most, scratchValues/p.containersOf(all)))
}

// leastNewest steps are asked for at once: with fewer, nothing would be new beside what is read again.
const leastNewest = overlap + 1

// newestNames are the namespaces to ask for next, in alphabetical order.
func (p *pool) newestNames() []string {
	names := slices.Sorted(maps.Keys(p.namespaces))
	if p.newest.end != 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return name <= p.newest.after })
	}
	if p.newest.names > 0 && len(names) > p.newest.names {
		names = names[:p.newest.names]
	}
	return names
}

// planPast goes back from what has been read: the newest past is worth the most. It is about the workloads
// that lack the most, which were first wanted at the same time.
func (p *pool) planPast(last int64) (*usage.Query, []*track) {
	oldest, _ := p.span(last)
	from := p.newestStart(oldest)
	if from <= oldest {
		// What was too much may have been so for a moment only.
		p.chunk = maxChunk
		return nil, nil
	}
	var group []*track
	namespaces, names := map[string]bool{}, map[string]bool{}
	all := true
	p.each(func(namespace string, workload podname.Workload, track *track) {
		if track.from != from {
			all = false
			return
		}
		group = append(group, track)
		namespaces[namespace] = true
		names[prefix(workload)] = true
	})
	end := min(last, from-1)
	query := p.query(slices.Sorted(maps.Keys(namespaces)), max(oldest, end-p.chunkFor(group)+1), end)
	if !all && len(names) <= maxPrefixes {
		query.PodPrefixes = slices.Sorted(maps.Keys(names))
	}
	return query, group
}

// newestStart is the newest step that any history starts with.
func (p *pool) newestStart(oldest int64) int64 {
	newest := oldest
	p.each(func(_ string, _ podname.Workload, track *track) { newest = max(newest, track.from) })
	return newest
}

// chunkFor is how many steps of a group's past fit into memory, and what the server has shown it can
// answer.
func (p *pool) chunkFor(group []*track) int64 {
	return min(p.chunk, max(pageSteps, scratchValues/p.containersOf(group)))
}

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
func prefix(workload podname.Workload) string { return usage.PodPrefix(workload.Name) }
