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
	// Open: but for the taint it takes new pods.
	Open bool
	// Measured: its load was measured just now.
	Measured bool
}

// Taints are the names of the nodes that are to carry the taint, in alphabetical order: those that are
// overloaded, at most a third of the open nodes at once, but one of two. Those that carry it keep it; then come
// the most overloaded, of those whose load is known: missing data taints no node.
//
// Nodes that are not open leave new pods no place, tainted or not: they are not among the third, and are not
// tainted. But a taint that one of them carries stays until it is well, so that it opens as it closed.
func Taints(nodes []LoadedNode) []string {
	var names []string
	var over []LoadedNode
	open := 0
	for _, n := range nodes {
		if n.Open {
			open++
		}
		switch {
		case !n.Overloaded:
		case n.Open && (n.Tainted || n.Measured):
			over = append(over, n)
		case n.Tainted:
			names = append(names, n.Name)
		}
	}
	slices.SortFunc(over, func(a, b LoadedNode) int {
		if a.Tainted != b.Tainted {
			if a.Tainted {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Load, a.Load), cmp.Compare(a.Name, b.Name))
	})
	for _, n := range over[:min(len(over), mostTaints(open))] {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// mostTaints bounds the tainted nodes, so that new pods have a place. A third of two nodes would be none at all.
func mostTaints(open int) int {
	if open == 2 {
		return 1
	}
	return open / 3
}
