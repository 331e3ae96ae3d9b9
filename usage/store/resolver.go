package store

import (
	"attune.io/attune/usage"
	"attune.io/attune/usage/podname"
)

// resolver tells which series are wanted. It is never changed once it is made.
type resolver struct {
	indexes map[string]podname.Index
	wanted  map[path]containers
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

func newResolver(interests []Interest) *resolver {
	r := &resolver{indexes: map[string]podname.Index{}, wanted: map[path]containers{}}
	known := map[string][]podname.Workload{}
	for _, interest := range interests {
		for _, w := range interest.Workloads {
			workload := podname.Workload{Kind: w.Kind, Name: w.Name}
			known[interest.Namespace] = append(known[interest.Namespace], workload)
			r.add(path{interest.Namespace, workload}, w.Containers)
		}
		known[interest.Namespace] = append(known[interest.Namespace], interest.Neighbours...)
	}
	for namespace, workloads := range known {
		r.indexes[namespace] = podname.NewIndex(workloads)
	}
	return r
}

func (r *resolver) add(at path, names []string) {
	set, known := r.wanted[at]
	if len(names) == 0 || known && set == nil {
		r.wanted[at] = nil
		return
	}
	if set == nil {
		set = containers{}
	}
	for _, name := range names {
		set[name] = true
	}
	r.wanted[at] = set
}

// of is the workload of a series, if it is wanted.
func (r *resolver) of(series usage.Series) (path, podname.Match) {
	workload, match := r.indexes[series.Namespace].Of(series.Pod)
	if match != podname.Found {
		return path{}, match
	}
	found := path{series.Namespace, workload}
	wanted, known := r.wanted[found]
	if !known || !wanted.has(series.Container) {
		return path{}, podname.Unknown
	}
	return found, podname.Found
}
