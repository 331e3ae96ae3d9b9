package node

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Thresholds above which a node is overloaded, of each signal.
const (
	// pressureThreshold is a fraction of the time, in which something on the node waits for CPU.
	pressureThreshold = 0.10
	// usageUnderPressure and usageThreshold are fractions of the allocatable CPU: the first counts together with
	// pressureThreshold, the second alone.
	usageUnderPressure, usageThreshold = 0.80, 0.95
	// loadThreshold is of load1 / CPUs.
	loadThreshold = 1.0
)

// LoadSample is what was measured of a node's CPU; not a number where something was not. Pressure is the share of the
// time that something on the node waited for CPU (PSI of the root cgroup), Load1 is node-exporter's node_load1, the
// other amounts are cores.
type LoadSample struct {
	Pressure, Load1, CPUs, Usage, Allocatable float64
}

// Load is the load in units of the threshold: above 1 the node is overloaded. Not a number: not measured.
//
// One throttled container on an idle node makes its pressure high. So pressure counts together with usage, and the
// lesser of the two is the load; where one of them is missing nothing takes its place.
func (s LoadSample) Load() float64 {
	used := s.Usage / s.Allocatable
	if s.Pressing() {
		return measured(min(s.Pressure/pressureThreshold, measured(used/usageUnderPressure)))
	}
	if waiting := measured(s.Load1 / s.CPUs / loadThreshold); !math.IsNaN(waiting) {
		return waiting
	}
	return measured(used / usageThreshold)
}

// Pressing: the node's pressure was measured, whatever it is.
func (s LoadSample) Pressing() bool { return !math.IsNaN(measured(s.Pressure)) }

// measured is a ratio, or not a number where there can be no such ratio.
func measured(ratio float64) float64 {
	if ratio < 0 || math.IsInf(ratio, 0) {
		return math.NaN()
	}
	return ratio
}

// InUse is the used fraction of the node's CPU, or its load average over its CPUs; not a number where only the
// pressure is known, which says how long processes wait and not how much CPU is free.
func (s LoadSample) InUse() float64 {
	used := s.Usage / s.CPUs
	if math.IsNaN(used) {
		used = s.Load1 / s.CPUs
	}
	if math.IsInf(used, 0) {
		return math.NaN()
	}
	return used
}

const (
	// confirmAfter is how long a node is above or below before it counts as overloaded or well again.
	confirmAfter = 2 * time.Minute
	// recoveredBelow is the load below which a node is well again.
	recoveredBelow = 0.9
)

// LoadState is the memory of one node between measurements. The zero value is a node that is well; a node that was found
// tainted starts Overloaded.
type LoadState struct {
	Overloaded bool
	// Since is when the node was first seen on the other side, without a break until Last; zero: it is on
	// its own.
	Since, Last time.Time
	// Load is the last one that was measured (LoadSample.Load).
	Load float64
}

// Next is the state after a measurement. A node turns after confirmAfter above a load of 1, or below recoveredBelow.
// Missing data changes nothing; but after a gap of confirmAfter or more the time before it does not count.
func (s LoadState) Next(load float64, now time.Time) LoadState {
	if math.IsNaN(load) {
		return s
	}
	gap := now.Sub(s.Last) >= confirmAfter
	s.Load, s.Last = load, now
	crossed := load > 1 // the threshold at which the node turns
	if s.Overloaded {
		crossed = load < recoveredBelow
	}
	switch {
	case !crossed:
		s.Since = time.Time{}
	case s.Since.IsZero() || gap:
		s.Since = now
	case now.Sub(s.Since) >= confirmAfter:
		s.Overloaded, s.Since = !s.Overloaded, time.Time{}
	}
	return s
}

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
	// New pods are to have a place; a third of two nodes would be none at all.
	most := open / 3
	if open == 2 {
		most = 1
	}
	for _, n := range over[:min(len(over), most)] {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}
