package node

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Thresholds of each signal above which a node is overloaded.
const (
	// pressureThreshold is the fraction of time in which something on the node waits for CPU.
	pressureThreshold = 0.10
	// usageUnderPressure and usageThreshold are fractions of the allocatable CPU. The first applies together with
	// pressureThreshold, the second without a measured pressure.
	usageUnderPressure, usageThreshold = 0.80, 0.95
	// loadThreshold is a bound of load1 / CPUs.
	loadThreshold = 1.0
)

// LoadSample is one measurement of a node's CPU; unmeasured fields are NaN. Pressure is the share of time in which
// something on the node waited for CPU (PSI of the root cgroup). Load1 is node-exporter's node_load1. The other amounts
// are cores.
type LoadSample struct {
	Pressure, Load1, CPUs, Usage, Allocatable float64
}

// Load returns the load in units of the threshold: above 1 the node is overloaded. It returns NaN if not measured.
//
// One throttled container on an idle node makes the node's pressure high. So pressure counts only together with usage,
// and the load is the lower of the two. If one of them is missing, the other signals do not replace it.
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

// Pressing reports whether the node's pressure was measured, regardless of its value.
func (s LoadSample) Pressing() bool { return !math.IsNaN(measured(s.Pressure)) }

// measured returns the ratio, or NaN if the ratio is negative or infinite.
func measured(ratio float64) float64 {
	if ratio < 0 || math.IsInf(ratio, 0) {
		return math.NaN()
	}
	return ratio
}

// InUse is the used fraction of the node's CPU, or its load average over its CPUs. It is NaN if only the pressure is
// known: pressure measures waiting time, not free CPU.
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
	// confirmAfter is how long a node must be above or below a threshold before its state changes.
	confirmAfter = 2 * time.Minute
	// recoveredBelow is the load below which an overloaded node recovers.
	recoveredBelow = 0.9
)

// LoadState is the state of one node between measurements. The zero value is a node that is not overloaded. A node that
// is found tainted starts with Overloaded set.
type LoadState struct {
	Overloaded bool
	// Since is when the node first crossed its threshold, without interruption until Last. Zero means that it has
	// not crossed it.
	Since, Last time.Time
	// Load is the last measured load (LoadSample.Load).
	Load float64
}

// Next returns the state after a measurement. The state changes after confirmAfter above a load of 1, or below
// recoveredBelow. Missing data changes nothing. After a gap of confirmAfter or more, the confirmation starts again.
func (s LoadState) Next(load float64, now time.Time) LoadState {
	if math.IsNaN(load) {
		return s
	}
	gap := now.Sub(s.Last) >= confirmAfter
	s.Load, s.Last = load, now
	crossed := load > 1 // the threshold for becoming overloaded
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
	// Tainted: the node has the taint now.
	Tainted bool
	// Open: apart from this taint, the node accepts new pods.
	Open bool
	// Measured: its load was measured in this pass.
	Measured bool
}

// Taints returns the names of the nodes that should have the taint, in alphabetical order. These are overloaded nodes:
// at most a third of the open nodes, or one of two. Nodes that already have the taint come first, then the most
// overloaded nodes with a measured load: missing data taints no node.
//
// Nodes that are not open accept no new pods anyway. They do not count for the third, and get no new taint. A taint
// that such a node already has stays until the node recovers.
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
	// New pods need a place. A third of two nodes rounds down to no taint at all.
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
