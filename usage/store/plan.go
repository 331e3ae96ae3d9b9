package store

import (
	"slices"
	"time"

	"attune.io/attune/usage"
)

const (
	// overlap is how many steps are read again with what is new, for samples that came late.
	overlap = 2
	// maxChunk is what servers answer with at most.
	maxChunk = 11_000
	// minChunk is the shortest span of the past that is tried.
	minChunk = 12
	// scratchValues bounds what one answer about the past takes in memory: 8 bytes for each value, three measures.
	scratchValues = 8 << 20
	// assumedContainers of a workload all of whose containers are wanted.
	assumedContainers = 4
	// maxPrefixes is how many workloads are asked for by name; for more, the whole namespaces are read.
	maxPrefixes = 100
)

// plan is what to ask a pool's source next. A nil query is nothing to ask.
type plan struct {
	newest, past *usage.Query
	// group is the workloads that past is about.
	group    map[path]*track
	resolver *resolver
}

// plan decides at a time: what is new for every workload that has been read before, and the next piece
// of the past for those that need it.
func (p *pool) plan(now time.Time) plan {
	last := usage.StepOf(now, p.settings.QueryStep)
	plan := plan{resolver: p.resolver, newest: p.planNewest(last)}
	plan.group = p.groupBehind(last)
	if len(plan.group) > 0 {
		plan.past = p.planPast(plan.group, last)
	}
	return plan
}

func (p *pool) planNewest(last int64) *usage.Query {
	if p.read == 0 || p.read >= last || len(p.tracks) == 0 {
		return nil
	}
	oldest, _ := p.span(last)
	first := max(oldest, p.read-overlap+1)
	return p.query(p.tracks, first, min(last, first+maxChunk-1))
}

// groupBehind is the workloads that lack the past, those that lack the most of it: they were first wanted at the same time.
func (p *pool) groupBehind(last int64) map[path]*track {
	oldest, _ := p.span(last)
	newest := oldest
	for _, track := range p.tracks {
		newest = max(newest, track.from)
	}
	group := map[path]*track{}
	for at, track := range p.tracks {
		if track.from == newest && newest > oldest {
			group[at] = track
		}
	}
	return group
}

// planPast goes back from what has been read: the newest past is worth the most.
func (p *pool) planPast(group map[path]*track, last int64) *usage.Query {
	oldest, _ := p.span(last)
	end := last
	for _, track := range group {
		end = min(end, track.from-1)
	}
	query := p.query(group, max(oldest, end-p.chunkFor(group)+1), end)
	if len(group) < len(p.tracks) && len(group) <= maxPrefixes {
		query.PodPrefixes = prefixes(group)
	}
	return query
}

// chunkFor is how many steps of a group's past fit into memory, and what the server has shown it can answer.
func (p *pool) chunkFor(group map[path]*track) int64 {
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

func (p *pool) query(tracks map[path]*track, first, last int64) *usage.Query {
	namespaces := make([]string, 0, len(tracks))
	for at := range tracks {
		namespaces = append(namespaces, at.namespace)
	}
	slices.Sort(namespaces)
	return &usage.Query{
		Namespaces: slices.Compact(namespaces),
		Start:      usage.StepEnd(first, p.settings.QueryStep),
		End:        usage.StepEnd(last, p.settings.QueryStep),
		Step:       p.settings.QueryStep,
		RateWindow: p.settings.RateWindow,
	}
}

// maxGenerated is how much of a workload's name is in its pods' names at most.
const maxGenerated = 58

func prefixes(group map[path]*track) []string {
	var names []string
	for at := range group {
		name := at.Name + "-"
		names = append(names, name[:min(len(name), maxGenerated)])
	}
	slices.Sort(names)
	return slices.Compact(names)
}
