// Package backtestpage writes the answer of a backtest as one HTML file. It loads no scripts, fonts or images, so
// users can mail it, archive it and open it without a network. Charts are inline SVG, with their numbers in tables
// next to them.
//
// Write fills page.html with the data in a Page. chart.go converts numbers to the coordinates of a chart. The package
// is pure. Names of series come from other users, and html/template escapes them. Start reading at Write.
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

// Page is the result of a backtest.
type Page struct {
	// Usage names the replayed usage. At is the time when the page was created.
	Usage string
	At    time.Time
	Rules backtest.Rules
	// Policy is the judged strategy. Others are compared with it, in the order of tables.
	Policy backtest.Report
	Others []backtest.Report
	// Sweep are the members of a sweep, from the lowest to the highest risk.
	Sweep []backtest.Report
	// Saved compares the policy with requests without it.
	Saved Saved
	// Harmed are the containers with the most harm, worst first. HarmedMore counts the others with harm.
	Harmed     []Harm
	HarmedMore int
	// Series are the drawn series.
	Series []Shown
	// Promises compares the promises of the sweep with the outcome; nil without a sweep.
	Promises *backtest.Reliability
	// Budgets has a sentence for each exceeded budget.
	Budgets []string
}

// all returns all results in the order of tables: the policy, the others, the sweep.
func (p Page) all() []backtest.Report {
	return slices.Concat([]backtest.Report{p.Policy}, p.Others, p.Sweep)
}

// Saved compares the requests of a policy with other requests, over the containers that have both. Amounts are
// core-hours and GiB-hours, by resource.
type Saved struct {
	// Than describes the other requests in words; empty if there are none.
	Than string
	// Policy and Other are the sums of both.
	Policy, Other [2]float64
}

// Harm has the shortages of one container under the policy.
type Harm struct {
	Series                      string
	OOMHours                    int
	StarvedMinutes, DeepMinutes float64
	ContainerDays               float64
}

// Shown is one drawn series.
type Shown struct {
	// Series is its name, Why the reason for drawing it.
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

// Write writes the page.
func Write(w io.Writer, p Page) error { return page.Execute(w, p) }

func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) + " %" }

// row is a row of the table of results.
type row struct {
	Name    string
	Policy  bool
	CPU     [3]string
	Memory  [2]string
	Resizes string
}

// reports returns the rows of the table: the policy, the others, the sweep.
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

// saving is a row of the table of savings.
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
