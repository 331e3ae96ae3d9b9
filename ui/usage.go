package ui

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/chart"
	"attune.io/attune/internal/explain"
	"attune.io/attune/recommender"
	"attune.io/attune/resize/lifecycle"
)

// mostParts are the parts of time of a chart. Each shows its highest step.
const mostParts = 240

// usageChart is the usage of one resource of one container, with its request and its target of now.
type usageChart struct {
	ID, Title, Text string
	// Usage is an outline that is filled. Request and Target are heights; empty: there is none.
	Usage           string
	Request, Target string
	Marks           []mark
	X, Y            []chart.Tick
}

// mark is a resize that ended.
type mark struct {
	At chart.Place
	// Text is in words what came of it. Well is false where the size was not kept.
	Text string
	Well bool
}

// chartOf draws the steps of a resource; false where nothing was measured.
func chartOf(steps []recommender.StepUsage, r recommender.Resource, c explain.Container, history []v1alpha1.HistoryEntry) (usageChart, bool) {
	points := parts(steps, r)
	most := 0.0
	for _, p := range points {
		most = recommender.Highest(most, p.Value)
	}
	if most == 0 {
		return usageChart{}, false
	}
	request, target := requests(c, r)
	from, to := points[0].At, points[len(points)-1].At
	out := usageChart{
		Title: fmt.Sprintf("%s usage of %s", r, c.Name),
		Text: fmt.Sprintf("Usage of the highest replica from %s to %s, at most %s; request now %s, target %s.", chart.Day(from), chart.Day(to),
			chart.Amount(r, most), explain.OrNone(r, request), explain.OrNone(r, target)),
	}
	lines := [2]float64{amount(r, request), amount(r, target)}
	most = max(most, lines[0], lines[1])
	axes := chart.Over(from, to, most)
	out.Usage, out.X, out.Y = axes.Area(points), axes.Days(from, to), axes.Amounts(r, most)
	for i, at := range []*string{&out.Request, &out.Target} {
		if lines[i] > 0 {
			*at = chart.Place(axes.Y(lines[i])).String()
		}
	}
	out.Marks = marks(history, c.Name, r, from, to, axes)
	return out, true
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

func requests(c explain.Container, r recommender.Resource) (now, target *string) {
	if r == recommender.Memory {
		return c.Current.MemoryRequest, c.Target.MemoryRequest
	}
	return c.Current.CPURequest, c.Target.CPURequest
}

// amount is a quantity in cores or bytes; 0 where there is none.
func amount(_ recommender.Resource, text *string) float64 {
	if text == nil {
		return 0
	}
	quantity, err := resource.ParseQuantity(*text)
	if err != nil {
		return 0
	}
	return quantity.AsApproximateFloat64()
}

// marks are the resizes of a resource of a container within the time of a chart.
func marks(history []v1alpha1.HistoryEntry, container string, r recommender.Resource, from, to int64, axes chart.Axes) (all []mark) {
	for _, e := range history {
		at := e.Timestamp.UnixMilli()
		if e.Container != container || at < from || at > to || e.Resource != r.String() && e.Resource != "cpu+memory" {
			continue
		}
		text := fmt.Sprintf("%s: %s to %s, %s", utc(e.Timestamp.Time), e.From, e.To, e.Result)
		if e.Reason != "" {
			text += ": " + e.Reason
		}
		all = append(all, mark{chart.Place(axes.X(at)), text, e.Result == lifecycle.ResultSuccess})
	}
	return all
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
