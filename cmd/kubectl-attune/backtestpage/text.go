package backtestpage

import (
	"slices"
	"strconv"

	"attune.io/attune/internal/chart"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) + " %" }

func slack(r backtest.ResourceReport) string {
	if !r.Measured {
		return "–"
	}
	return percent(r.FleetSlack)
}

// row of the table of results.
type row struct {
	Name    string
	Policy  bool
	CPU     [3]string
	Memory  [2]string
	Resizes string
}

// reports are the rows of the table: the policy, what it is compared with, the sweep.
func reports(p Page) []row {
	rows := []row{rowOf(p.Policy)}
	rows[0].Policy = true
	for _, r := range slices.Concat(p.Others, p.Sweep) {
		rows = append(rows, rowOf(r))
	}
	return rows
}

func rowOf(r backtest.Report) row {
	out := row{Name: r.Name, CPU: [3]string{"–", "–", "–"}, Memory: [2]string{"–", "–"}, Resizes: chart.Figure(r.Resizes)}
	if of := r.Of[recommender.CPU]; of.Measured {
		out.CPU = [3]string{slack(of), chart.Figure(r.StarvedMinutes), chart.Figure(r.DeepMinutes)}
	}
	if of := r.Of[recommender.Memory]; of.Measured {
		out.Memory = [2]string{slack(of), chart.Figure(r.OOMHours)}
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
