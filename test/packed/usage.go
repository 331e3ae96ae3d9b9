// Package packed plays a day of a cluster whose pods are sized by a strategy and packed onto nodes by a scheduler, with the
// usage of a trace: what it reserves, who starves, how often pods are resized and who has to go.
package packed

import (
	"math"
	"slices"
	"strings"

	"attune.io/attune/recommender"
	"attune.io/attune/usage/csvfile"
)

// series is the CPU usage of one pod, in cores by the minute; NaN where nothing was measured.
type series struct {
	name, workload string
	cores          []float64
}

// bridged is how many minutes a value stands for itself: traces have a step of five minutes at most.
const bridged = 6

// Usage of a cluster's pods.
type Usage struct {
	pods []*series
	// highest usage of a workload's pods by the minute.
	highest map[string][]float64
	minutes int
}

// Read a trace (csvfile). Pods of one workload have its name up to the first "@".
func Read(name string) (*Usage, error) {
	all, _, err := csvfile.All(name)
	if err != nil {
		return nil, err
	}
	first, last := int64(math.MaxInt64), int64(0)
	for _, of := range all {
		for _, s := range of.Samples {
			first, last = min(first, s.At/60_000), max(last, s.At/60_000)
		}
	}
	u := newUsage(int(last - first + 1))
	for _, of := range all {
		cores := unknown(u.minutes)
		for _, s := range of.Samples {
			cores[s.At/60_000-first] = s.Used[recommender.CPU]
		}
		u.add(of.ID, cores)
	}
	return u, nil
}

func newUsage(minutes int) *Usage { return &Usage{highest: map[string][]float64{}, minutes: minutes} }

func unknown(n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = math.NaN()
	}
	return values
}

// add a pod's usage. A value stands until the next one comes, for a few minutes at most.
func (u *Usage) add(name string, cores []float64) {
	last, age := math.NaN(), 0
	for i, v := range cores {
		if !math.IsNaN(v) {
			last, age = v, 0
			continue
		}
		if age++; age <= bridged {
			cores[i] = last
		}
	}
	s := &series{name: name, cores: cores}
	s.workload, _, _ = strings.Cut(name, "@")
	u.pods = append(u.pods, s)
	highest := u.highest[s.workload]
	if highest == nil {
		highest = make([]float64, u.minutes)
		u.highest[s.workload] = highest
	}
	for i, v := range cores {
		if !math.IsNaN(v) {
			highest[i] = max(highest[i], v)
		}
	}
}

// at a minute, in cores; nothing where nothing was measured.
func (s *series) at(minute int) float64 {
	if minute < 0 || minute >= len(s.cores) || math.IsNaN(s.cores[minute]) {
		return 0
	}
	return s.cores[minute]
}

// lately are the known values of the last minutes.
func (s *series) lately(minute, minutes int) (known []recommender.Usage) {
	for i := max(0, minute-minutes+1); i <= minute && i < len(s.cores); i++ {
		if !math.IsNaN(s.cores[i]) {
			known = append(known, recommender.Usage(s.cores[i]*1000))
		}
	}
	slices.Sort(known)
	return known
}

// over is the highest usage of a workload in a span of minutes, in cores.
func (u *Usage) over(workload string, from, to int) float64 {
	highest := u.highest[workload]
	from, to = max(0, from), min(to, len(highest)-1)
	if from > to {
		return 0
	}
	return slices.Max(highest[from : to+1])
}
