// Package backtestpage writes the answer of a backtest as one HTML file: no script, no font and no picture is loaded, so that
// it can be mailed, archived and opened without a network. Charts are inline SVG, with their numbers in tables beside them.
//
// Write takes a Page, which is data, and fills page.html with it. chart.go turns numbers into the coordinates of a chart.
// The package is pure. Names of series come from others: html/template escapes them. Start reading here.
package backtestpage

import (
	_ "embed"
	"html/template"
	"io"
	"slices"
	"strconv"
	"time"

	"attune.io/attune/internal/chart"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// Page is what a backtest found.
type Page struct {
	// Usage names what was replayed, At is when the page was made.
	Usage string
	At    time.Time
	Rules backtest.Rules
	// Policy is what is judged, Others are what it is compared with, in the order of tables.
	Policy backtest.Report
	Others []backtest.Report
	// Sweep are the members of a sweep, from the least risk to the greatest.
	Sweep []backtest.Report
	// Saved compares with what is asked for without the policy.
	Saved Saved
	// Harmed are the containers with the most harm, the worst first; HarmedMore is how many more have any.
	Harmed     []Harm
	HarmedMore int
	// Series that are drawn.
	Series []Shown
	// Promises of the sweep, compared with what came of them; nil: none were made.
	Promises *backtest.Reliability
	// Budgets are sentences about those that are broken.
	Budgets []string
}

// all results in the order of tables: that of the policy, of what it is compared with, and of the sweep.
func (p Page) all() []backtest.Report {
	return slices.Concat([]backtest.Report{p.Policy}, p.Others, p.Sweep)
}

// Saved is what a policy would have requested less than something else, over the containers of which both are known. Amounts
// are core-hours and GiB-hours, by resource.
type Saved struct {
	// Than says in words what it is compared with; empty: with nothing.
	Than string
	// Policy and Other are the sums of both.
	Policy, Other [2]float64
}

// Harm is what a policy would have done to one container.
type Harm struct {
	Series                      string
	OOMHours                    int
	StarvedMinutes, DeepMinutes float64
	ContainerDays               float64
}

// Shown is one series that is drawn.
type Shown struct {
	// Series is its name, Why says why it was chosen.
	Series, Why string
	Line        backtest.Timeline
}

//go:embed page.html
var text string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"figure":  chart.Figure,
	"reports": reports,
	"plots":   plots,
	"scatter": frontiers,
	"promise": promises,
	"savings": savings,
	"hours":   func(d time.Duration) string { return chart.Figure(d.Hours()) },
	"utc":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
}).Parse(text))

// Write the page.
func Write(w io.Writer, p Page) error { return page.Execute(w, p) }

func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) + " %" }

// row of the table of results.
type row struct {
	Name    string
	Policy  bool
	CPU     [3]string
	Memory  [2]string
	Resizes string
}

// reports are the rows of the table: the policy, what it is compared with, the sweep.
func reports(p Page) (rows []row) {
	for i, r := range p.all() {
		rows = append(rows, rowOf(r))
		rows[i].Policy = i == 0
	}
	return rows
}

func rowOf(r backtest.Report) row {
	out := row{Name: r.Name, CPU: [3]string{"–", "–", "–"}, Memory: [2]string{"–", "–"}, Resizes: chart.Figure(r.Resizes)}
	if of := r.Of[recommender.CPU]; of.Measured {
		out.CPU = [3]string{percent(of.FleetSlack), chart.Figure(r.StarvedMinutes), chart.Figure(r.DeepMinutes)}
	}
	if of := r.Of[recommender.Memory]; of.Measured {
		out.Memory = [2]string{percent(of.FleetSlack), chart.Figure(r.OOMHours)}
		if r.Own {
			out.Memory[1] += " (own limit " + chart.Figure(r.OwnOOMHours) + ")"
		}
	}
	return out
}

// saving is a row of what would have been saved.
type saving struct{ Resource, Policy, Other, Less, Part string }

var units = [2]string{recommender.CPU: "core-hours", recommender.Memory: "GiB-hours"}

func savings(s Saved) (rows []saving) {
	for _, r := range recommender.Resources {
		if s.Other[r] <= 0 {
			continue
		}
		less := s.Other[r] - s.Policy[r]
		rows = append(rows, saving{
			Resource: r.String(), Policy: chart.Figure(s.Policy[r]) + " " + units[r], Other: chart.Figure(s.Other[r]) + " " + units[r],
			Less: chart.Figure(less) + " " + units[r], Part: percent(less / s.Other[r]),
		})
	}
	return rows
}
