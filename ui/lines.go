package ui

import (
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/chart"
	"attune.io/attune/internal/explain"
	"attune.io/attune/internal/trail"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize/lifecycle"
)

// lines are what a container had and was to have of a resource over the time of a chart, in cores or bytes; 0: nothing.
type lines struct {
	request, limit, target []chart.Point
	// began is when the leader began to keep them, in milliseconds; 0: it has kept none yet, and they are those of now.
	began int64
	// before reports that the request was drawn from the history of resizes for the time before began.
	before bool
}

// linesOf are drawn from a time to another. What is known is what the leader kept, and before that what the history of resizes
// tells of the request.
func linesOf(points []trail.Point, history []v1alpha1.HistoryEntry, c explain.Container, r recommender.Resource, from, to int64) lines {
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
	out.request = stepped(append(earlier, kept(points, r, func(v trail.Values) recommender.Amount { return v.Request })...), from, to)
	out.limit = stepped(kept(points, r, func(v trail.Values) recommender.Amount { return v.Limit }), from, to)
	out.target = stepped(kept(points, r, func(v trail.Values) recommender.Amount { return v.Target }), from, to)
	return out
}

// kept is one value of a trail.
func kept(points []trail.Point, r recommender.Resource, value func(trail.Values) recommender.Amount) []chart.Point {
	out := make([]chart.Point, len(points))
	for i, p := range points {
		out[i] = chart.Point{At: p.At, Value: inUnits(r, value(p.Values))}
	}
	return out
}

// inUnits is an amount in cores or bytes.
func inUnits(r recommender.Resource, amount recommender.Amount) float64 {
	if r == recommender.CPU {
		return float64(amount) / 1000
	}
	return float64(amount)
}

// stepped makes points of a line, between two times, of values that hold from their times on.
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

// requestsBefore goes back in the history from the first value that was kept. It ends where a resize does not lead to the value
// that came after it: something else changed the request there, such as a new template.
func requestsBefore(history []v1alpha1.HistoryEntry, container string, r recommender.Resource, first trail.Point) (line []chart.Point) {
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

// beginning turns a line that goes back in time around, and begins it with the value from which its first step was made.
func beginning(line []chart.Point, value recommender.Amount, r recommender.Resource) []chart.Point {
	if len(line) == 0 {
		return nil
	}
	line = append(line, chart.Point{At: line[len(line)-1].At, Value: inUnits(r, value)})
	slices.Reverse(line)
	return line
}

// moved are the requests of a resource before and after a resize; false: it changed none.
func moved(e v1alpha1.HistoryEntry, r recommender.Resource) (before, after recommender.Amount, ok bool) {
	names, from, to := strings.Split(e.Resource, "+"), strings.Split(e.From, ", "), strings.Split(e.To, ", ")
	i := slices.Index(names, r.String())
	if i < 0 || i >= len(from) || i >= len(to) {
		return 0, 0, false
	}
	a, err := resource.ParseQuantity(from[i])
	b, err2 := resource.ParseQuantity(to[i])
	if err != nil || err2 != nil { // such as "limit 1Gi"
		return 0, 0, false
	}
	return podview.AmountOf(r, a), podview.AmountOf(r, b), true
}

// amount is a quantity in cores or bytes; 0 where there is none.
func amount(r recommender.Resource, text *string) float64 {
	return inUnits(r, exactly(r, ptr.Deref(text, "")))
}

// highest value of some lines; 0: there is none.
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
