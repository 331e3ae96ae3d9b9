package csvfile

import (
	"fmt"
	"math"
	"slices"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage"
)

// mostInFiles bounds the usage of a container in a file if its node is unknown: 1,024 cores and 64 TiB.
var mostInFiles = usage.Most{Cores: 1024, Bytes: 64 << 40}

// A sample above this multiple of the median of the others is implausible. The median of an idle container is almost
// zero, so its bursts are compared with at least 10m or 1 MiB.
const mostOfMedian = 1000

var leastMedian = [2]float64{recommender.CPU: 0.010, recommender.Memory: 1 << 20}

// Dropped describes the dropped samples of one resource of a series.
type Dropped struct {
	// Zero counts memory samples of 0 bytes, which are not measurements. Implausible counts samples above the bound of
	// any container.
	Zero, Implausible int
	// Value is the highest implausible sample and Most its bound, in cores or bytes.
	Value, Most float64
	// times of the implausible samples, in Unix milliseconds.
	times []int64
}

// DropImplausible turns impossible samples into gaps, in place: memory of 0 bytes, and samples above the bounds of the
// node (0: not known). Without a known bound, a sample must not exceed 1,024 cores or 64 TiB, nor 1,000 times the
// median of the series.
func DropImplausible(s backtest.Series, bounds usage.Most) (dropped [2]Dropped) {
	for _, r := range recommender.Resources {
		memory := r == recommender.Memory
		bound := [2]float64{recommender.CPU: bounds.Cores, recommender.Memory: bounds.Bytes}[r]
		if bound == 0 {
			bound = min(mostInFiles.Of(memory), mostByMedian(s, r))
		}
		for i := range s.Samples {
			value := &s.Samples[i].Used[r]
			switch drop := (usage.Most{Cores: bound, Bytes: bound}).DropOf(*value, memory); {
			case math.IsNaN(*value) || drop == "":
				continue
			case drop == usage.DropZero:
				dropped[r].Zero++
			default:
				dropped[r].Implausible++
				dropped[r].Value, dropped[r].Most = max(dropped[r].Value, *value), bound
				dropped[r].times = append(dropped[r].times, s.Samples[i].At)
			}
			*value = math.NaN()
		}
	}
	return dropped
}

// mostByMedian is the bound of a sample by the median of the samples that no other rule drops. One sample moves the
// median by at most one place, so all samples are compared with the same median.
func mostByMedian(s backtest.Series, r recommender.Resource) float64 {
	values := make([]float64, 0, len(s.Samples))
	for i := range s.Samples {
		if value := s.Samples[i].Used[r]; mostInFiles.DropOf(value, r == recommender.Memory) == "" {
			values = append(values, value)
		}
	}
	// Fewer than three samples are not compared: of two samples, neither is the norm.
	if len(values) < 3 {
		return math.Inf(1)
	}
	slices.Sort(values)
	return max(values[(len(values)-1)/2], leastMedian[r]) * mostOfMedian
}

// Bound is the highest implausible sample and its bound, in the recommender's units, without a day's counts.
func (d Dropped) Bound(r recommender.Resource) recommender.Implausible {
	return recommender.Implausible{Highest: r.Measured(d.Value), Most: r.Measured(d.Most)}
}

// InDay counts the implausible samples of the day that ends at a time, for the recommender. s is the series without
// them.
func InDay(s backtest.Series, dropped [2]Dropped, end time.Time) (out [2]recommender.Implausible) {
	from, to := end.Add(-24*time.Hour).UnixMilli(), end.UnixMilli()
	for _, r := range recommender.Resources {
		of := &out[r]
		*of = dropped[r].Bound(r)
		for _, at := range dropped[r].times {
			if at > from && at <= to {
				of.Dropped++
			}
		}
		of.Of = of.Dropped
		for i := range s.Samples {
			if at := s.Samples[i].At; at > from && at <= to && !math.IsNaN(s.Samples[i].Used[r]) {
				of.Of++
			}
		}
	}
	return out
}

// Told describes the dropped samples as text; nil if there are none.
func Told(dropped [2]Dropped) (told []string) {
	for _, r := range recommender.Resources {
		d := dropped[r]
		if d.Implausible > 0 {
			told = append(told, fmt.Sprintf("%d %s samples were dropped, up to %s", d.Implausible, r, d.Bound(r).Told(r)))
		}
		if d.Zero > 0 {
			told = append(told, fmt.Sprintf("%d memory samples of 0 bytes were dropped: a running container uses memory", d.Zero))
		}
	}
	return told
}
