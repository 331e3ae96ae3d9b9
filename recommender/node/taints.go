package node

import (
	"cmp"
	"slices"
)

// LoadedNode is one node of a cluster.
type LoadedNode struct {
	Name string
	LoadState
	// Tainted: it carries the taint now.
	Tainted bool
}

// Taints are the names of the nodes that are to carry the taint, in alphabetical order: those that are
// overloaded, at most a third of the cluster's nodes at once, but one of two or more. Those that carry it
// keep it; then come the most overloaded.
func Taints(nodes []LoadedNode) []string {
	var over []LoadedNode
	for _, n := range nodes {
		if n.Overloaded {
			over = append(over, n)
		}
	}
	slices.SortFunc(over, func(a, b LoadedNode) int {
		if a.Tainted != b.Tainted {
			if a.Tainted {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Name, b.Name))
	})
	var names []string
	for _, n := range over[:min(len(over), mostTaints(len(nodes)))] {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// mostTaints leaves new pods somewhere to go.
func mostTaints(nodes int) int {
	if nodes == 2 {
		return 1
	}
	return nodes / 3
}
