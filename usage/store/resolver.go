package store

import (
	"slices"

	"attune.io/attune/usage"
	"attune.io/attune/usage/podname"
)

// resolver tells which series of one namespace are wanted. It is never changed once it is made.
type resolver struct {
	index podname.Index
	// numbers of the workloads that are wanted, in wishes.
	numbers map[podname.Workload]int
	wishes  []wish
}

// wish is a workload that is wanted, and which containers of it.
type wish struct {
	workload   podname.Workload
	containers containers
}

// containers is a set of a few names; nil is all of them.
type containers []string

func (c containers) has(name string) bool { return c == nil || slices.Contains(c, name) }

// include says whether all of the others are in the set.
func (c containers) include(others containers) bool {
	if c == nil {
		return true
	}
	for _, name := range others {
		if !slices.Contains(c, name) {
			return false
		}
	}
	return others != nil
}

func newResolver(interests map[string]Interest, neighbours []podname.Workload) *resolver {
	r := &resolver{numbers: map[podname.Workload]int{}}
	known := slices.Clone(neighbours)
	for _, interest := range interests {
		r.wishes = slices.Grow(r.wishes, len(interest.Workloads))
		for _, w := range interest.Workloads {
			workload := podname.Workload{Kind: w.Kind, Name: w.Name}
			known = append(known, workload)
			r.want(workload, w.Containers)
		}
	}
	r.index = podname.NewIndex(known)
	return r
}

// want adds to what other policies want of the workload. The names are the interest's, and shared until
// another policy wants other ones.
func (r *resolver) want(workload podname.Workload, names containers) {
	n, known := r.numbers[workload]
	if !known {
		r.numbers[workload] = len(r.wishes)
		if len(names) == 0 {
			names = nil
		}
		r.wishes = append(r.wishes, wish{workload, names})
		return
	}
	of := &r.wishes[n].containers
	switch {
	case *of == nil:
	case len(names) == 0:
		*of = nil
	case !of.include(names):
		both := slices.Concat(*of, names)
		slices.Sort(both)
		*of = slices.Compact(both)
	}
}

// number of the workload of a pod, if it is wanted.
func (r *resolver) number(pod string) (int, podname.Match) {
	workload, match := r.index.Of(pod)
	if match != podname.Found {
		return 0, match
	}
	n, known := r.numbers[workload]
	if !known {
		return 0, podname.Unknown
	}
	return n, podname.Found
}

// dropOf says why the samples of a pod are dropped; false: they just belong to nobody.
func dropOf(match podname.Match) (usage.Drop, bool) {
	return usage.DropAmbiguous, match == podname.Ambiguous
}
