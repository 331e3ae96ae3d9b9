package ui

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/chart"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// mostParts limits the points of a chart. Each point is the highest sample of its period.
const mostParts = 240

// usageChart shows the usage of one resource of one container, with its request, limit and target.
type usageChart struct {
	ID, Title, Text string
	// Usage is a filled outline. Request, Limit and Target are lines; empty if not set.
	Usage, Request, Limit, Target string
	Marks                         []mark
	X, Y                          []chart.Tick
}

// mark is an event at a point in time.
type mark struct {
	At chart.Place
	// Text describes the event and its result. Kind is markResized, markUnverified or markKilled.
	Text, Kind string
}

// chartOf draws the usage of a resource; false if there are no samples.
func chartOf(of drawn, r recommender.Resource) (usageChart, bool) {
	points := parts(of.steps, r)
	used := highest(0, points)
	if used == 0 {
		return usageChart{}, false
	}
	from, to := points[0].At, points[len(points)-1].At
	l := linesOf(of.trail.Points[r], of.rec.Status.History, of.container, r, from, to)
	most := highest(used, l.request, l.limit, l.target)
	axes := chart.Over(from, to, most)
	marks := append(resizes(of.rec.Status.History, of.container.Name, r, from, to, axes), kills(of, r, from, to, axes)...)
	return usageChart{
		Title: fmt.Sprintf("%s usage of %s", r, of.container.Name), Text: captionOf(of, r, l, marks, [2]int64{from, to}, used),
		Usage: axes.Area(points), Request: axes.Line(l.request), Limit: axes.Line(l.limit), Target: axes.Line(l.target),
		Marks: marks, X: axes.Days(from, to), Y: axes.Amounts(r, most),
	}, true
}

// drawn has the input of a container's charts.
type drawn struct {
	container answers.ExplainedContainer
	rec       *v1alpha1.AttuneRecommendation
	steps     []recommender.StepUsage
	trail     event.Trail
}

// captionOf describes a chart in words, including the time from which its lines are known.
func captionOf(of drawn, r recommender.Resource, l lines, marks []mark, span [2]int64, used float64) string {
	request, limit := of.container.Values(r)
	text := fmt.Sprintf("Usage of the highest replica from %s to %s, at most %s; request now %s, limit %s, target %s.", chart.Day(span[0]), chart.Day(span[1]),
		chart.Amount(r, used), answers.OrNone(r, request.Current), answers.OrNone(r, limit.Current), answers.OrNone(r, request.Target))
	switch {
	case l.began == 0:
		text += " Request, limit and target show the current values: the leader has not recorded earlier ones."
	case l.before:
		text += fmt.Sprintf(" Request, limit and target are shown since %s, when the leader started to record them. Earlier requests are from the history.", chart.Day(l.began))
	default:
		text += fmt.Sprintf(" Request, limit and target are shown since %s, when the leader started to record them.", chart.Day(l.began))
	}
	return text + counted(marks)
}

// counted gives the number of marks of each kind.
func counted(marks []mark) string {
	n := map[string]int{}
	for _, m := range marks {
		n[m.Kind]++
	}
	if len(marks) == 0 {
		return ""
	}
	return fmt.Sprintf(" Marks: accepted resizes (dots): %d, reverted, withdrawn or failed ones (triangles): %d, OOM kills (crosses): %d.", n[markResized], n[markUnverified], n[markKilled])
}

// parts divides the time into up to mostParts periods and returns the highest value of each; NaN for a period
// without a sample.
func parts(steps []recommender.StepUsage, r recommender.Resource) []chart.Point {
	if len(steps) < 2 {
		return nil
	}
	from, to := steps[0].At.UnixMilli(), steps[len(steps)-1].At.UnixMilli()
	shortest := to - from
	for i := range steps[1:] {
		shortest = min(shortest, steps[i+1].At.UnixMilli()-steps[i].At.UnixMilli())
	}
	number := int64(1)
	if shortest > 0 {
		number = min(mostParts, (to-from)/shortest+1)
	}
	points := make([]chart.Point, number)
	for i := range points {
		points[i] = chart.Point{At: from + (to-from)*int64(i)/max(1, number-1), Value: math.NaN()}
	}
	for _, s := range steps {
		value := s.CPUCores
		if r == recommender.Memory {
			value = s.MemoryBytes
		}
		p := &points[(s.At.UnixMilli()-from)*(number-1)/max(1, to-from)]
		if math.IsNaN(p.Value) || value > p.Value {
			p.Value = value
		}
	}
	return points
}

// Kinds of marks.
const markResized, markUnverified, markKilled = "resized", "unverified", "killed"

// resizes returns the resizes of a container's resource within the chart.
func resizes(history []v1alpha1.HistoryEntry, container string, r recommender.Resource, from, to int64, axes chart.Axes) (all []mark) {
	for _, e := range history {
		at := e.Timestamp.UnixMilli()
		if e.Container != container || at < from || at > to || e.Resource != r.String() && e.Resource != "cpu+memory" {
			continue
		}
		text := fmt.Sprintf("%s: %s to %s, %s", utc(e.Timestamp.Time), e.From, e.To, e.Result)
		if e.Reason != "" {
			text += ": " + e.Reason
		}
		kind := markUnverified
		if e.Result == lifecycle.ResultSuccess {
			kind = markResized
		}
		all = append(all, mark{chart.Place(axes.X(at)), text, kind})
	}
	return all
}

// kills returns the OOM kills that this leader saw, and the ones from which floors were learned, each once.
func kills(of drawn, r recommender.Resource, from, to int64, axes chart.Axes) (all []mark) {
	if r != recommender.Memory {
		return nil
	}
	times := slices.Clone(of.trail.Kills)
	for _, f := range of.rec.Status.Floors {
		if f.Container == of.container.Name && f.Resource == r.String() && f.Reason == string(resize.HarmOOM) {
			times = append(times, f.LearnedAt.UnixMilli())
		}
	}
	slices.Sort(times)
	for i, at := range times {
		// The operator learns a floor within a minute of the kill, so a time that close is the same kill.
		if at < from || at > to || i > 0 && at-times[i-1] < time.Minute.Milliseconds() {
			continue
		}
		all = append(all, mark{chart.Place(axes.X(at)), utc(time.UnixMilli(at)) + ": OOM kill", markKilled})
	}
	return all
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// lines has the request, limit and target over the time of a chart, in cores or bytes; 0 means not set.
type lines struct {
	request, limit, target []chart.Point
	// began is when the leader started recording, in Unix milliseconds; 0: nothing was recorded yet, and the lines
	// show the present values.
	began int64
	// before is true if the request before began comes from the history of resizes.
	before bool
}

// linesOf draws the lines between two times. It uses the values that the leader recorded, and for the request
// before that the history of resizes.
func linesOf(points []event.TrailPoint, history []v1alpha1.HistoryEntry, c answers.ExplainedContainer, r recommender.Resource, from, to int64) lines {
	if len(points) == 0 {
		flat := func(value float64) []chart.Point {
			return []chart.Point{{At: from, Value: value}, {At: to, Value: value}}
		}
		request, limit := c.Values(r)
		return lines{request: flat(amount(r, request.Current)), limit: flat(amount(r, limit.Current)), target: flat(amount(r, request.Target))}
	}
	out := lines{began: points[0].At}
	earlier := requestsBefore(history, c.Name, r, points[0])
	out.before = len(earlier) > 0 && earlier[0].At < points[0].At
	out.request = stepped(append(earlier, recordedPoints(points, r, func(v event.TrailValues) recommender.Amount { return v.Request })...), from, to)
	out.limit = stepped(recordedPoints(points, r, func(v event.TrailValues) recommender.Amount { return v.Limit }), from, to)
	out.target = stepped(recordedPoints(points, r, func(v event.TrailValues) recommender.Amount { return v.Target }), from, to)
	return out
}

// recordedPoints returns one value of each recorded point.
func recordedPoints(points []event.TrailPoint, r recommender.Resource, value func(event.TrailValues) recommender.Amount) []chart.Point {
	out := make([]chart.Point, len(points))
	for i, p := range points {
		out[i] = chart.Point{At: p.At, Value: inUnits(r, value(p.TrailValues))}
	}
	return out
}

// inUnits converts an amount to cores or bytes.
func inUnits(r recommender.Resource, amount recommender.Amount) float64 {
	if r == recommender.CPU {
		return float64(amount) / 1000
	}
	return float64(amount)
}

// stepped returns the points of a step line between two times. Each value holds until the next one.
func stepped(values []chart.Point, from, to int64) (line []chart.Point) {
	last := 0.0
	for _, v := range values {
		switch {
		case v.At > to:
		case v.At <= from:
			line = []chart.Point{{At: from, Value: v.Value}}
			last = v.Value
		default:
			if len(line) > 0 {
				line = append(line, chart.Point{At: v.At, Value: last})
			}
			line = append(line, v)
			last = v.Value
		}
	}
	if len(line) > 0 {
		line = append(line, chart.Point{At: to, Value: last})
	}
	return line
}

// requestsBefore walks the history back in time from the first recorded value. It stops at a resize that does not lead
// to the next value: another change, such as a new template, set the request there.
func requestsBefore(history []v1alpha1.HistoryEntry, container string, r recommender.Resource, first event.TrailPoint) (line []chart.Point) {
	value := first.Request
	if value == 0 {
		return nil
	}
	for _, e := range history { // newest first
		at := e.Timestamp.UnixMilli()
		if e.Container != container || e.Result != lifecycle.ResultSuccess || at >= first.At {
			continue
		}
		before, after, ok := moved(e, r)
		switch {
		case !ok || before == after:
			continue
		case after == value:
			line = append(line, chart.Point{At: at, Value: inUnits(r, value)})
			value = before
		case before == value: // the same change, of another pod
			continue
		default:
			return beginning(line, value, r)
		}
	}
	return beginning(line, value, r)
}

// beginning reverses a line that was built backwards in time. The line starts with value, the request before its
// first resize.
func beginning(line []chart.Point, value recommender.Amount, r recommender.Resource) []chart.Point {
	if len(line) == 0 {
		return nil
	}
	line = append(line, chart.Point{At: line[len(line)-1].At, Value: inUnits(r, value)})
	slices.Reverse(line)
	return line
}

// moved returns the requests of a resource before and after a resize; false if the resize did not change them.
func moved(e v1alpha1.HistoryEntry, r recommender.Resource) (before, after recommender.Amount, ok bool) {
	names, from, to := strings.Split(e.Resource, "+"), strings.Split(e.From, ", "), strings.Split(e.To, ", ")
	i := slices.Index(names, r.String())
	if i < 0 || i >= len(from) || i >= len(to) {
		return 0, 0, false
	}
	a, err := workload.ParseQuantity(from[i])
	b, err2 := workload.ParseQuantity(to[i])
	if err != nil || err2 != nil { // a limit, such as "limit 1Gi"
		return 0, 0, false
	}
	return podview.AmountOf(r, a), podview.AmountOf(r, b), true
}

// amount converts a quantity to cores or bytes; 0 if it is not set.
func amount(r recommender.Resource, text *string) float64 {
	return inUnits(r, exactly(r, ptr.Deref(text, "")))
}

// highest returns the highest value of some lines, and at least most.
func highest(most float64, all ...[]chart.Point) float64 {
	for _, line := range all {
		for _, p := range line {
			if !math.IsNaN(p.Value) {
				most = max(most, p.Value)
			}
		}
	}
	return most
}
