package backtest

import (
	"cmp"
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// Score is the result of a strategy for one series.
type Score struct {
	// Scored is the scored time, with a size in force.
	Scored time.Duration
	// Of has the sums of each resource, indexed by recommender.Resource.
	Of [2]ResourceScore
	// Deep is the time with usage above twice the CPU request.
	Deep time.Duration
	// OOMHours counts the clock hours in which memory exceeded its limit at least once.
	OOMHours int
	// Own is true if the algorithm has a memory limit of its own (Limiter). OwnOOMHours counts the clock hours with
	// usage above that limit. OOMHours then counts the hours with usage above the request.
	Own         bool
	OwnOOMHours int
	// Resizes counts the decisions that changed a size.
	Resizes int

	lastOOM, lastOwn int64
}

// ResourceScore has the sums of one resource over the scored time. Amounts are cores or bytes, times seconds.
type ResourceScore struct {
	// Measured is the time in which the resource was measured.
	Measured time.Duration
	// Requested is the sum of requests, Used the sum of usage up to the request.
	Requested, Used float64
	// Slack is the sum of the unused fraction of the request, times seconds.
	Slack float64
	// Beyond is the time with usage above the request.
	Beyond time.Duration
}

// RelativeSlack is the mean unused fraction of the request over time, 0 to 1.
func (s ResourceScore) RelativeSlack() float64 { return s.Slack / s.Measured.Seconds() }

const hour = int64(time.Hour / time.Millisecond)

// add scores a sample against the size in force. It returns whether memory exceeded its limit.
func (s *Score) add(sample Sample, inForce Size, step time.Duration) (killed bool) {
	scored := false
	for r, used := range sample.Used {
		request := inForce[r]
		if !measured(used) || request <= 0 {
			continue
		}
		scored = true
		of := &s.Of[r]
		of.Measured += step
		of.Requested += request * step.Seconds()
		of.Used += min(used, request) * step.Seconds()
		of.Slack += max(0, request-used) / request * step.Seconds()
		if used > request {
			of.Beyond += step
		}
	}
	if scored {
		s.Scored += step
	}
	if cpu := inForce[recommender.CPU]; cpu > 0 && sample.Used[recommender.CPU] > 2*cpu {
		s.Deep += step
	}
	return beyond(sample, inForce[recommender.Memory], &s.OOMHours, &s.lastOOM)
}

// beyond reports whether memory exceeded a limit, and counts the clock hour unless it was the last one counted.
func beyond(s Sample, limit float64, hours *int, last *int64) bool {
	if !(limit > 0) || !(s.Used[recommender.Memory] > limit) {
		return false
	}
	if in := s.At/hour + 1; in != *last {
		*hours, *last = *hours+1, in
	}
	return true
}

// Report sums up the scores of a strategy over a trace.
type Report struct {
	// Name of the strategy.
	Name string
	// Series is the number of scored series, ContainerDays their scored time.
	Series        int
	ContainerDays float64
	// Of has the results of each resource, indexed by recommender.Resource.
	Of [2]ResourceReport
	// StarvedMinutes and DeepMinutes of CPU, OOMHours and Resizes are per container-day.
	StarvedMinutes, DeepMinutes, OOMHours, Resizes float64
	// Own: the strategy has a memory limit of its own. OwnOOMHours are the hours above it, per container-day.
	Own         bool
	OwnOOMHours float64
}

// Incidents are the starved minutes of CPU, or the OOM hours of memory, per container-day.
func (r Report) Incidents(of recommender.Resource) float64 {
	if of == recommender.Memory {
		return r.OOMHours
	}
	return r.StarvedMinutes
}

// ResourceReport is the result of one resource. Slacks are fractions of the request.
type ResourceReport struct {
	// Measured is false if no series has the resource.
	Measured bool
	// FleetSlack is 1 - sum(min(usage, request)) / sum(request) over all series and times. MedianSlack is the median of
	// the relative slack over the series.
	FleetSlack, MedianSlack float64
}

// Tally collects the scores of one strategy, in the order of the series.
type Tally struct {
	name   string
	scores []Score
}

// NewTally returns an empty Tally.
func NewTally(name string) *Tally { return &Tally{name: name} }

// Add adds the score of one series.
func (t *Tally) Add(s Score) { t.scores = append(t.scores, s) }

// Scores has one score per series, in order, so that two strategies can be compared pairwise.
func (t *Tally) Scores() []Score { return t.scores }

// Report sums up the added scores.
func (t *Tally) Report() Report { return Summary(t.name, t.scores) }

// Summary is the report over any scores, such as a bootstrap sample of them. Scores without scored time count nothing.
func Summary(name string, scores []Score) Report {
	report := Report{Name: name}
	var days, starved, deep, oom, own, resizes float64
	for _, s := range scores {
		if s.Scored > 0 {
			report.Series++
		}
		days += s.Scored.Hours() / 24
		starved += s.Of[recommender.CPU].Beyond.Minutes()
		deep += s.Deep.Minutes()
		oom += float64(s.OOMHours)
		own += float64(s.OwnOOMHours)
		report.Own = report.Own || s.Own
		resizes += float64(s.Resizes)
	}
	report.ContainerDays = days
	if days == 0 {
		return report
	}
	report.StarvedMinutes, report.DeepMinutes, report.OOMHours, report.Resizes = starved/days, deep/days, oom/days, resizes/days
	report.OwnOOMHours = own / days
	for r := range report.Of {
		report.Of[r] = resourceReport(scores, r)
	}
	return report
}

func resourceReport(scores []Score, r int) (report ResourceReport) {
	var requested, used float64
	var slacks []float64
	for _, s := range scores {
		if of := s.Of[r]; of.Measured > 0 {
			requested, used = requested+of.Requested, used+of.Used
			slacks = append(slacks, of.RelativeSlack())
		}
	}
	if requested == 0 {
		return report
	}
	return ResourceReport{Measured: true, FleetSlack: 1 - used/requested, MedianSlack: median(slacks)}
}

// median of values, the lower of the two middle ones if their number is even; it reorders the values.
func median[T cmp.Ordered](values []T) (m T) {
	if len(values) == 0 {
		return m
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
