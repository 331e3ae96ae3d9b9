package node

import (
	"math"
	"time"
)

// Signal is what a node's load is judged by.
type Signal uint8

// Signals, the best first.
const (
	// NoSignal: nothing was measured.
	NoSignal Signal = iota
	// Pressure is the share of the time that something on the node waited for CPU (PSI of the root cgroup).
	Pressure
	// LoadAverage is load1 / CPUs.
	LoadAverage
	// Busy is CPU usage / allocatable CPU.
	Busy
)

// threshold above which a node is overloaded.
func (s Signal) threshold() float64 {
	return [...]float64{NoSignal: math.NaN(), Pressure: 0.10, LoadAverage: 1, Busy: 0.95}[s]
}

// LoadSample is what was measured of a node's CPU; not a number where something was not. Load1 is
// node-exporter's node_load1, the other amounts are cores.
type LoadSample struct {
	Pressure, Load1, CPUs, Usage, Allocatable float64
}

// Load is the best signal there is, and its ratio.
func (s LoadSample) Load() (Signal, float64) {
	for _, known := range [...]struct {
		signal Signal
		ratio  float64
	}{
		{Pressure, s.Pressure}, {LoadAverage, s.Load1 / s.CPUs}, {Busy, s.Usage / s.Allocatable},
	} {
		if known.ratio >= 0 && !math.IsInf(known.ratio, 1) {
			return known.signal, known.ratio
		}
	}
	return NoSignal, math.NaN()
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
	// recovered is the part of a threshold below which a node is well again.
	recovered = 0.9
)

// LoadState is what is remembered of one node. The zero value is a node that is well; one that was found
// tainted starts Overloaded.
type LoadState struct {
	Overloaded bool
	// Since is when the node was first seen on the other side, without a break until Last; zero: it is on
	// its own.
	Since, Last time.Time
	// Severity is the last ratio in terms of its threshold.
	Severity float64
}

// Next is the state after a measurement. A node turns after 2 minutes above its threshold, or below 0.9
// of it. Missing data changes nothing; but what was seen before a gap of 2 minutes or more says nothing of
// the time in it, and counts no more.
func (s LoadState) Next(signal Signal, ratio float64, now time.Time) LoadState {
	severity := ratio / signal.threshold()
	if math.IsNaN(severity) {
		return s
	}
	gap := now.Sub(s.Last) >= turnAfter
	s.Severity, s.Last = severity, now
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
		return s.Severity < recovered
	}
	return s.Severity > 1
}
