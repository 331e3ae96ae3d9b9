package store

import (
	"attune.io/attune/usage"
	"attune.io/attune/usage/podname"
)

// resolver tells which series of one namespace are wanted. It is never changed once it is made.
type resolver struct {
	index  podname.Index
	wanted map[podname.Workload]containers
}

// containers is a set of names; nil is all of them.
type containers map[string]bool

func (c containers) has(name string) bool { return c == nil || c[name] }

// include says whether all of the others are in the set.
func (c containers) include(others containers) bool {
	if c == nil {
		return true
	}
	for name := range others {
		if !c[name] {
			return false
		}
	}
	return others != nil
}

func newResolver(interests map[string]Interest) *resolver {
	r := &resolver{wanted: map[podname.Workload]containers{}}
	var known []podname.Workload
	for _, interest := range interests {
		for _, w := range interest.Workloads {
			workload := podname.Workload{Kind: w.Kind, Name: w.Name}
			known = append(known, workload)
			r.want(workload, w.Containers)
		}
		known = append(known, interest.Neighbours...)
	}
	r.index = podname.NewIndex(known)
	return r
}

// want adds to what other policies want of the workload.
func (r *resolver) want(workload podname.Workload, names []string) {
	set, known := r.wanted[workload]
	if len(names) == 0 || known && set == nil {
		r.wanted[workload] = nil
		return
	}
	if set == nil {
		set = containers{}
	}
	for _, name := range names {
		set[name] = true
	}
	r.wanted[workload] = set
}

// of is the workload of a series, if it is wanted.
func (r *resolver) of(series usage.Series) (podname.Workload, podname.Match) {
	workload, match := r.index.Of(series.Pod)
	if match != podname.Found {
		return podname.Workload{}, match
	}
	wanted, known := r.wanted[workload]
	if !known || !wanted.has(series.Container) {
		return podname.Workload{}, podname.Unknown
	}
	return workload, podname.Found
}
