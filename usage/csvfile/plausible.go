package csvfile

import (
	"cmp"
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
	// Zero counts memory samples of 0 bytes, which are not measurements. Implausible counts the other dropped samples.
	Zero, Implausible int
	// Value is the highest implausible sample and Most its bound, in cores or bytes.
	Value, Most float64
	// Cause is why the samples were dropped, Fix what to change in the file; empty: they exceed the bound.
	Cause, Fix string
	// Times of the implausible samples and of those of 0 bytes, in Unix milliseconds.
	times, zeros []int64
}

// DropImplausible turns impossible samples into gaps, in place: memory of 0 bytes, and samples above the bounds of the
// node (0: not known). Without a known bound, a sample must not exceed 1,024 cores or 64 TiB, nor 1,000 times the
// median of the series. All samples of a resource are dropped if they have the wrong unit (judgement).
func DropImplausible(s backtest.Series, bounds usage.Most, size recommender.Size) (dropped [2]Dropped) {
	for _, r := range recommender.Resources {
		dropped[r] = drop(s, r, judge(s, r, [2]float64{recommender.CPU: bounds.Cores, recommender.Memory: bounds.Bytes}[r], size[r]))
	}
	return dropped
}

// DropAbove is DropImplausible for samples of a cluster, whose units are known: only the bounds count.
func DropAbove(s backtest.Series, bounds usage.Most) (dropped [2]Dropped) {
	for _, r := range recommender.Resources {
		dropped[r] = drop(s, r, judgement{most: bounds.Of(r == recommender.Memory)})
	}
	return dropped
}

func drop(s backtest.Series, r recommender.Resource, j judgement) (d Dropped) {
	for i := range s.Samples {
		value := &s.Samples[i].Used[r]
		switch why := (usage.Most{Cores: j.most, Bytes: j.most}).DropOf(*value, r == recommender.Memory); {
		case math.IsNaN(*value) || why == "" && !j.all:
			continue
		case why == usage.DropZero:
			d.Zero++
			d.zeros = append(d.zeros, s.Samples[i].At)
		default:
			d.Implausible++
			d.Value, d.Most, d.Cause, d.Fix = max(d.Value, *value), j.most, j.cause, j.fix
			d.times = append(d.times, s.Samples[i].At)
		}
		*value = math.NaN()
	}
	return d
}

// judgement bounds the samples of one resource of a series.
type judgement struct {
	most float64
	// all is true if no sample is plausible, because the whole series has the wrong unit.
	all        bool
	cause, fix string
}

// judge bounds the samples of a resource. node is the node's bound, size the container's size; 0: not known. One sample
// moves the median by at most one place, so all samples are compared with the same median.
func judge(s backtest.Series, r recommender.Resource, node float64, size recommender.Allocation) judgement {
	memory := r == recommender.Memory
	values := measuredOf(s, r)
	// Fewer than three samples are not compared: of two samples, neither is the norm.
	if len(values) < 3 {
		return judgement{most: cmp.Or(node, mostInFiles.Of(memory))}
	}
	middle, last := values[(len(values)-1)/2], values[len(values)-1]
	j := judgement{most: cmp.Or(node, mostInFiles.Of(memory))}
	switch reference := reference(r, size); {
	case !memory && rises(s):
		j.all, j.cause = true, "cpu_cores only rises, as a counter of CPU seconds does"
		j.fix = "Use rate(container_cpu_usage_seconds_total[5m])"
	case memory && last < leastMedian[r]:
		j.all, j.cause, j.fix = true, "all samples are below 1Mi", unitOf(r, middle, reference)
	case middle > j.most:
		j.fix = unitOf(r, middle, reference)
	case node == 0 && !memory && middle > mostOf(size):
		j.all, j.cause = true, fmt.Sprintf("the median is %.0f times the current %s", middle*1000/float64(reference), recommender.Readable(r, reference))
		j.fix = unitOf(r, middle, reference) + "; if the samples are right, set --node"
	case node == 0:
		possible, _ := slices.BinarySearch(values, math.Nextafter(j.most, math.Inf(1)))
		usual := max(values[(possible-1)/2], leastMedian[r])
		if byMedian := usual * mostOfMedian; byMedian < j.most {
			j.most = byMedian
			j.cause = "more than 1000 times the median of the series, " + recommender.Readable(r, recommender.Amount(r.Measured(usual)))
		}
	}
	return j
}

// measuredOf returns the sorted samples of a resource, without gaps and memory of 0.
func measuredOf(s backtest.Series, r recommender.Resource) []float64 {
	values := make([]float64, 0, len(s.Samples))
	for i := range s.Samples {
		if value := s.Samples[i].Used[r]; value > 0 || value == 0 && r == recommender.CPU {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return values
}

// rises reports whether the CPU samples rise nearly all the time, as a counter does and usage does not. A counter that
// falls begins again near 0.
func rises(s backtest.Series) bool {
	const least = 24 // two hours of samples of five minutes
	pairs, risen, dips, before := 0, 0, 0, math.NaN()
	for i := range s.Samples {
		used := s.Samples[i].Used[recommender.CPU]
		if math.IsNaN(used) {
			continue
		}
		if !math.IsNaN(before) {
			pairs++
			switch {
			case used > before:
				risen++
			case used < before && used > before/10:
				dips++
			}
		}
		before = used
	}
	return pairs >= least && 10*risen > 9*pairs && 100*dips <= pairs
}

// mostOf is the highest plausible median of CPU, in cores, for a container with a known size. It is generous: the size
// may have been another one when the samples were recorded.
func mostOf(size recommender.Allocation) float64 {
	const cores, ofLimit, ofRequest = 2000, 5, 100
	switch {
	case size.Limit > 0:
		return float64(max(ofLimit*size.Limit, cores)) / 1000
	case size.Request > 0:
		return float64(max(ofRequest*size.Request, 5*cores)) / 1000
	}
	return math.Inf(1)
}

// reference is the amount with which the units of samples are compared: the container's size, or a usual one.
func reference(r recommender.Resource, size recommender.Allocation) recommender.Amount {
	return cmp.Or(size.Request, size.Limit, [2]recommender.Amount{recommender.CPU: 250, recommender.Memory: 256 << 20}[r])
}

// units that are written into the columns by mistake. factor converts to cores or bytes.
var units = [2][]struct {
	name, fix string
	factor    float64
}{
	recommender.CPU: {
		{"millicores", "divide it by 1000", 1e-3}, {"nanocores", "divide it by 1000000000", 1e-9}, {"percent of a core", "divide it by 100", 1e-2},
	},
	recommender.Memory: {
		{"KiB", "multiply it by 1024", 1 << 10}, {"MiB", "multiply it by 1048576", 1 << 20}, {"GiB", "multiply it by 1073741824", 1 << 30},
	},
}

// unitOf returns the fix for the unit in which a sample is closest to a reference; empty for an absurd sample.
func unitOf(r recommender.Resource, value float64, reference recommender.Amount) string {
	fix, nearest := "", math.Log(mostOfMedian)
	for _, unit := range units[r] {
		if far := math.Abs(math.Log(float64(r.Measured(value*unit.factor)) / float64(reference))); far < nearest {
			fix, nearest = fmt.Sprintf("If %s is in %s, %s", header[2+int(r)], unit.name, unit.fix), far
		}
	}
	return fix
}

// Bound is the highest implausible sample and its bound, in the recommender's units, without a day's counts.
func (d Dropped) Bound(r recommender.Resource) recommender.Implausible {
	return recommender.Implausible{Highest: r.Measured(d.Value), Most: r.Measured(d.Most), Cause: d.Cause, Fix: d.Fix}
}

// InDay counts the dropped samples of the day that ends at a time, for the recommender. s is the series without
// them.
func InDay(s backtest.Series, dropped [2]Dropped, end time.Time) (out [2]recommender.Implausible) {
	from, to := end.Add(-24*time.Hour).UnixMilli(), end.UnixMilli()
	for _, r := range recommender.Resources {
		of := &out[r]
		*of = dropped[r].Bound(r)
		inDay := func(at int64) bool { return at > from && at <= to }
		of.Zeros = count(dropped[r].zeros, inDay)
		of.Dropped = of.Zeros + count(dropped[r].times, inDay)
		of.Of = of.Dropped
		for i := range s.Samples {
			if inDay(s.Samples[i].At) && !math.IsNaN(s.Samples[i].Used[r]) {
				of.Of++
			}
		}
	}
	return out
}

func count(times []int64, is func(at int64) bool) (n int) {
	for _, at := range times {
		if is(at) {
			n++
		}
	}
	return n
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
