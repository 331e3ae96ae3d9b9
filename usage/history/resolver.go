package history

import (
	"slices"

	"attune.io/attune/internal/workload"
)

// resolver finds the workload of a series of one namespace, and whether it is wanted. It is immutable, so that a
// read uses it without Store.mutex.
type resolver struct {
	index workload.PodIndex
	// numbers of the workloads that are wanted, in wishes.
	numbers map[workload.KindName]int
	wishes  []wish
}

// wish is a workload that is wanted, and which containers of it.
type wish struct {
	workload   workload.KindName
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

// newResolver of the interests of one namespace. Neighbours are in the index without being wanted, so that the pods of one
// are not taken for those of a workload with a shorter name.
func newResolver(interests map[string]Interest, neighbours []workload.KindName) *resolver {
	r := &resolver{numbers: map[workload.KindName]int{}}
	known := slices.Clone(neighbours)
	for _, interest := range interests {
		r.wishes = slices.Grow(r.wishes, len(interest.Workloads))
		for _, w := range interest.Workloads {
			workload := workload.KindName{Kind: w.Kind, Name: w.Name}
			known = append(known, workload)
			r.want(workload, w.Containers)
		}
	}
	r.index = workload.NewPodIndex(known)
	return r
}

// want adds to what other policies want of the workload. The names are the interest's, and shared until
// another policy wants other ones.
func (r *resolver) want(workload workload.KindName, names containers) {
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
func (r *resolver) number(pod string) (int, workload.Match) {
	name, match := r.index.Of(pod)
	if match != workload.MatchFound {
		return 0, match
	}
	n, known := r.numbers[name]
	if !known {
		return 0, workload.MatchNone
	}
	return n, workload.MatchFound
}
