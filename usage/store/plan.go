package store

import (
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
	// partialPause is how long a past that was answered in part is left as it is, before it is read again.
	partialPause = time.Hour
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
			p.counted = false
		}
	})
}

func (p *pool) planNewest(last int64) *usage.Query {
	if p.read == 0 || p.read >= last || len(p.namespaces) == 0 {
		return nil
	}
	oldest, _ := p.span(last)
	first := max(oldest, p.read-overlap+1)
	return p.query(slices.Sorted(maps.Keys(p.namespaces)), first, min(last, first+maxChunk-1))
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
	containers := 0
	for _, track := range group {
		if track.wanted != nil {
			containers += len(track.wanted)
		} else {
			containers += assumedContainers
		}
	}
	return min(p.chunk, max(pageSteps, scratchValues/int64(max(1, containers))))
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
