package ui

import (
	"fmt"
	"math"
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/chart"
	"attune.io/attune/internal/display"
	"attune.io/attune/internal/explain"
	"attune.io/attune/internal/trail"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// mostParts are the parts of time of a chart. Each shows its highest step.
const mostParts = 240

// usageChart is the usage of one resource of one container, with what it had and was to have.
type usageChart struct {
	ID, Title, Text string
	// Usage is an outline that is filled. Request, Limit and Target are lines; empty: there is none.
	Usage, Request, Limit, Target string
	Marks                         []mark
	X, Y                          []chart.Tick
}

// mark is something that happened at a time.
type mark struct {
	At chart.Place
	// Text is in words what came of it. Kind is resized, where the size was kept, unkept or killed.
	Text, Kind string
}

// chartOf draws the steps of a resource; false where nothing was measured.
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

// drawn is what the charts of a container are drawn of.
type drawn struct {
	container explain.Container
	rec       *v1alpha1.AttuneRecommendation
	steps     []recommender.StepUsage
	trail     trail.Trail
}

// captionOf tells in words what a chart shows, and where its lines begin.
func captionOf(of drawn, r recommender.Resource, l lines, marks []mark, span [2]int64, used float64) string {
	request, limit := of.container.Values(r)
	text := fmt.Sprintf("Usage of the highest replica from %s to %s, at most %s; request now %s, limit %s, target %s.", chart.Day(span[0]), chart.Day(span[1]),
		chart.Amount(r, used), display.OrNone(r, request.Current), display.OrNone(r, limit.Current), display.OrNone(r, request.Target))
	switch {
	case l.began == 0:
		text += " Request, limit and target are drawn as they are now: the leader has kept no earlier ones."
	case l.before:
		text += fmt.Sprintf(" Request, limit and target are drawn since %s, when the leader began to keep them; the request before that is told by the history.", chart.Day(l.began))
	default:
		text += fmt.Sprintf(" Request, limit and target are drawn since %s, when the leader began to keep them.", chart.Day(l.began))
	}
	return text + counted(marks)
}

// counted tells how many marks there are of each kind.
func counted(marks []mark) string {
	n := map[string]int{}
	for _, m := range marks {
		n[m.Kind]++
	}
	if len(marks) == 0 {
		return ""
	}
	return fmt.Sprintf(" Marks: resizes that were kept (dots): %d, that were not (triangles): %d, OOM kills (crosses): %d.", n[markResized], n[markUnkept], n[markKilled])
}

// parts returns the highest value of each part of the time; NaN where nothing was measured.
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
const markResized, markUnkept, markKilled = "resized", "unkept", "killed"

// resizes are those of a resource of a container within the time of a chart.
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
		kind := markUnkept
		if e.Result == lifecycle.ResultSuccess {
			kind = markResized
		}
		all = append(all, mark{chart.Place(axes.X(at)), text, kind})
	}
	return all
}

// kills are the OOM kills that pods showed to this leader, and those that the floors were learned from, each once.
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
		// A floor is learned moments after the kill that it is learned from.
		if at < from || at > to || i > 0 && at-times[i-1] < time.Minute.Milliseconds() {
			continue
		}
		all = append(all, mark{chart.Place(axes.X(at)), utc(time.UnixMilli(at)) + ": OOM kill", markKilled})
	}
	return all
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
