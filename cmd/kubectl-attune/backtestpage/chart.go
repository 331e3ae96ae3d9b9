package backtestpage

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"attune.io/attune/internal/chart"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// Sizes of charts, in the units of their viewBox.
const (
	frontierHigh     = 380.0
	reliabilityWide  = 420.0
	labelHigh        = 11.0
	labelWide        = 5.6
	mostLabelAttempt = 12
)

// plot is the chart of one resource of one series.
type plot struct {
	ID, Title, Text string
	// Usage is a filled outline. Request and Limit are lines; Limit is empty if it equals the request.
	Usage, Request, Limit string
	// Short has the parts with a shortage, as positions and widths.
	Short  []bar
	X, Y   []chart.Tick
	Legend string
}

type bar struct{ At, Width chart.Place }

// plots returns a plot for each measured resource of a series.
func plots(s Shown, number int) (all []plot) {
	for _, r := range recommender.Resources {
		if p, ok := plotOf(s, r); ok {
			p.ID = fmt.Sprintf("series-%d-%s", number, r)
			all = append(all, p)
		}
	}
	return all
}

// plotOf returns the plot of one resource; false if it was never measured.
func plotOf(s Shown, r recommender.Resource) (plot, bool) {
	most := 0.0
	for _, m := range s.Line {
		most = max(most, recommender.Highest(0, m.Most[r]), m.Request[r])
		if r == recommender.Memory {
			most = max(most, recommender.Highest(0, m.Limit))
		}
	}
	if most == 0 {
		return plot{}, false
	}
	from, to := s.Line[0].At, s.Line[len(s.Line)-1].At
	axes := chart.Over(from, to, most)
	p := plot{Title: fmt.Sprintf("%s of %s over time", r, s.Series), Usage: axes.Area(points(s.Line, func(m backtest.Moment) float64 { return m.Most[r] }))}
	p.Request = axes.Line(points(s.Line, func(m backtest.Moment) float64 { return m.Request[r] }))
	short := 0
	width := math.Max(2, (chart.Wide-chart.Left-chart.Right)/float64(len(s.Line)))
	for _, m := range s.Line {
		if m.Short[r] {
			short++
			p.Short = append(p.Short, bar{chart.Place(axes.X(m.At) - width), chart.Place(width)})
		}
	}
	what := "above the request"
	if r == recommender.Memory {
		what = "above the limit"
		if limited(s.Line) {
			p.Limit = axes.Line(points(s.Line, func(m backtest.Moment) float64 { return m.Limit }))
		}
	}
	p.Text = fmt.Sprintf("Maximum usage and request from %s to %s; the maximum is %s. Usage is %s in %d of %d intervals.", chart.Day(from), chart.Day(to), chart.Amount(r, most), what, short, len(s.Line))
	p.Y = axes.Amounts(r, most)
	p.X = axes.Days(from, to)
	p.Legend = "usage " + what
	return p, true
}

// points returns the points of one line of a series.
func points(l backtest.Timeline, of func(backtest.Moment) float64) []chart.Point {
	all := make([]chart.Point, len(l))
	for i, m := range l {
		all[i] = chart.Point{At: m.At, Value: of(m)}
	}
	return all
}

// limited reports whether memory has a limit that differs from its request.
func limited(l backtest.Timeline) bool {
	return slices.ContainsFunc(l, func(m backtest.Moment) bool { return m.Limit != m.Request[recommender.Memory] })
}

// frontier is the chart of incidents against slack of one resource.
type frontier struct {
	ID, Title, Text, Axis string
	Points                []point
	// Sweep is the line through the members of a sweep.
	Sweep string
	X, Y  []chart.Tick
}

// point is one strategy.
type point struct {
	X, Y           chart.Place
	Name, Title    string
	Policy, Member bool
	LabelX, LabelY chart.Place
}

// frontiers returns a chart for each measured resource.
func frontiers(p Page) (all []frontier) {
	for _, r := range recommender.Resources {
		if p.Policy.Of[r].Measured {
			all = append(all, frontierOf(p, r))
		}
	}
	return all
}

var incidents = [2]string{recommender.CPU: "starved minutes per container-day", recommender.Memory: "OOM hours per container-day"}

func frontierOf(p Page, r recommender.Resource) frontier {
	f := frontier{ID: "frontier-" + r.String(), Axis: incidents[r], Title: fmt.Sprintf("Slack of %s against %s", r, incidents[r])}
	f.Text = "Lower left is better: less slack and less shortage. The table of all results has the numbers."
	all := p.all()
	least, most := math.Inf(1), 0.0
	for _, of := range all {
		if n := of.Incidents(r); of.Of[r].Measured && n > 0 {
			least, most = min(least, n), max(most, n)
		}
	}
	scale := newDecades(least, most)
	y := func(slack float64) float64 {
		return frontierHigh - chart.Below - (frontierHigh-chart.Above-chart.Below)*slack
	}
	var path []string
	for i, of := range all {
		if !of.Of[r].Measured {
			continue
		}
		at := point{X: chart.Place(scale.x(of.Incidents(r))), Y: chart.Place(y(of.Of[r].FleetSlack)), Policy: i == 0, Member: i > len(p.Others)}
		at.Title = fmt.Sprintf("%s: slack %s, %s %s", of.Name, percent(of.Of[r].FleetSlack), chart.Figure(of.Incidents(r)), incidents[r])
		if at.Member {
			path = append(path, at.X.String()+" "+at.Y.String())
		} else {
			at.Name = of.Name
		}
		f.Points = append(f.Points, at)
	}
	if len(path) > 1 {
		f.Sweep = "M" + strings.Join(path, "L")
	}
	label(f.Points)
	f.X = scale.ticks()
	for _, part := range []float64{0, 0.25, 0.5, 0.75, 1} {
		f.Y = append(f.Y, chart.At(y(part), percent(part)))
	}
	return f
}

// decades is a logarithmic axis with an extra position for 0 at its left.
type decades struct{ first, last int }

func newDecades(least, most float64) decades {
	if most == 0 {
		return decades{0, 1}
	}
	first, last := int(math.Floor(math.Log10(least))), int(math.Ceil(math.Log10(most)))
	return decades{first, max(last, first+1)}
}

// zeroWide is the width of the position for 0.
const zeroWide = 40.0

func (d decades) x(n float64) float64 {
	if n <= 0 {
		return chart.Left + zeroWide/2
	}
	part := (math.Log10(n) - float64(d.first)) / float64(d.last-d.first)
	return chart.Left + zeroWide + (chart.Wide-chart.Left-zeroWide-chart.Right-90)*part
}

func (d decades) ticks() []chart.Tick {
	all := []chart.Tick{chart.At(d.x(0), "0")}
	for n := d.first; n <= d.last; n++ {
		all = append(all, chart.At(d.x(math.Pow10(n)), chart.Figure(math.Pow10(n))))
	}
	return all
}

// label places the names next to their points so that they do not overlap earlier names.
func label(points []point) {
	type box struct{ x, y, width float64 }
	var placed []box
	free := func(b box) bool {
		return !slices.ContainsFunc(placed, func(p box) bool {
			return math.Abs(b.y-p.y) < labelHigh && b.x < p.x+p.width && p.x < b.x+b.width
		})
	}
	for i := range points {
		p := &points[i]
		if p.Name == "" {
			continue
		}
		b := box{float64(p.X) + 8, float64(p.Y) + 4, labelWide * float64(len(p.Name))}
		for n := 1; n <= mostLabelAttempt && !free(b); n++ {
			b.y = float64(p.Y) + 4 + labelHigh*float64((n+1)/2)*float64(1-n%2*2)
		}
		placed = append(placed, b)
		p.LabelX, p.LabelY = chart.Place(b.x), chart.Place(b.y)
	}
}

// reliability is the chart of promised against observed shortages.
type reliability struct {
	ID, Title, Text string
	Points          []point
	Diagonal        string
	X, Y            []chart.Tick
	Rows            [][4]string
}

// promises returns a chart for each resource with promises.
func promises(of *backtest.Reliability) (all []reliability) {
	if of == nil {
		return nil
	}
	for _, r := range recommender.Resources {
		if bins := of.Bins(r); len(bins) > 0 {
			all = append(all, reliabilityOf(bins, r))
		}
	}
	return all
}

// decadesOfPromises is the number of decades on both axes, 0.00001 to 1. Smaller values are placed at the end.
const decadesOfPromises = 5.0

func reliabilityOf(bins []backtest.Promises, r recommender.Resource) reliability {
	scale := func(part, from, to float64) float64 {
		return from + (to-from)*math.Max(0, (math.Log10(math.Max(part, 1e-9))+decadesOfPromises)/decadesOfPromises)
	}
	x := func(part float64) float64 { return scale(part, chart.Left, reliabilityWide-chart.Right) }
	y := func(part float64) float64 { return scale(part, frontierHigh-chart.Below, chart.Above) }
	what := "time with CPU usage above the request"
	if r == recommender.Memory {
		what = "hours with memory usage above the limit"
	}
	c := reliability{
		ID: "promises-" + r.String(), Title: fmt.Sprintf("Predicted and observed share of %s", what),
		Text:     "On the line, the prediction was exact; above it, more was short than predicted. The table next to it has the numbers.",
		Diagonal: fmt.Sprintf("M%s %sL%s %s", chart.Place(x(1e-5)), chart.Place(y(1e-5)), chart.Place(x(1)), chart.Place(y(1))),
	}
	for _, b := range bins {
		promised, observed := b.PromisedPart(), b.ObservedPart()
		c.Points = append(c.Points, point{X: chart.Place(x(promised)), Y: chart.Place(y(observed)), Title: fmt.Sprintf("predicted %s %%, observed %s %%, %d decisions", chart.Figure(100*promised), chart.Figure(100*observed), b.Decisions)})
		c.Rows = append(c.Rows, [4]string{chart.Figure(100*promised) + " %", chart.Figure(100*observed) + " %", fmt.Sprint(b.Decisions), chart.Figure(b.Time.Hours())})
	}
	for n := -5; n <= 0; n++ {
		part := math.Pow10(n)
		text := chart.Figure(100*part) + " %"
		c.X, c.Y = append(c.X, chart.At(x(part), text)), append(c.Y, chart.At(y(part), text))
	}
	return c
}
