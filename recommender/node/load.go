package node

import (
	"math"
	"time"
)

// What a node's load is too much above, of each signal.
const (
	// tooManyWait is a share of the time in which something on the node waits for CPU.
	tooManyWait = 0.10
	// muchUsed and tooMuchUsed are of the allocatable CPU: the first one together with tooManyWait, the second one alone.
	muchUsed, tooMuchUsed = 0.80, 0.95
	// tooLong is load1 / CPUs.
	tooLong = 1.0
)

// LoadSample is what was measured of a node's CPU; not a number where something was not. Pressure is the share of the
// time that something on the node waited for CPU (PSI of the root cgroup), Load1 is node-exporter's node_load1, the
// other amounts are cores.
type LoadSample struct {
	Pressure, Load1, CPUs, Usage, Allocatable float64
}

// Load is the load in terms of what is too much: above 1 the node is overloaded. Not a number: not measured.
//
// One throttled container on an idle node makes its pressure high. So pressure counts together with usage, and the
// lesser of the two is the load; where one of them is missing nothing takes its place.
func (s LoadSample) Load() float64 {
	used := s.Usage / s.Allocatable
	if s.Pressing() {
		return measured(min(s.Pressure/tooManyWait, measured(used/muchUsed)))
	}
	if waiting := measured(s.Load1 / s.CPUs / tooLong); !math.IsNaN(waiting) {
		return waiting
	}
	return measured(used / tooMuchUsed)
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
// pressure is known, which tells of those that wait and not of how much there is to be had.
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
	// turnAfter is how long a node is above or below before it counts as overloaded or well again.
	turnAfter = 2 * time.Minute
	// recovered is the load below which a node is well again.
	recovered = 0.9
)

// LoadState is what is remembered of one node. The zero value is a node that is well; one that was found
// tainted starts Overloaded.
type LoadState struct {
	Overloaded bool
	// Since is when the node was first seen on the other side, without a break until Last; zero: it is on
	// its own.
	Since, Last time.Time
	// Load is the last one that was measured (LoadSample.Load).
	Load float64
}

// Next is the state after a measurement. A node turns after 2 minutes above a load of 1, or below 0.9. Missing data
// changes nothing; but what was seen before a gap of 2 minutes or more says nothing of the time in it, and counts no
// more.
func (s LoadState) Next(load float64, now time.Time) LoadState {
	if math.IsNaN(load) {
		return s
	}
	gap := now.Sub(s.Last) >= turnAfter
	s.Load, s.Last = load, now
	switch {
	case !s.beyond():
		s.Since = time.Time{}
	case s.Since.IsZero() || gap:
		s.Since = now
	case now.Sub(s.Since) >= turnAfter:
		s.Overloaded, s.Since = !s.Overloaded, time.Time{}
	}
	return s
}

// beyond: the node is on the other side of what it has to cross in order to turn.
func (s LoadState) beyond() bool {
	if s.Overloaded {
		return s.Load < recovered
	}
	return s.Load > 1
}
