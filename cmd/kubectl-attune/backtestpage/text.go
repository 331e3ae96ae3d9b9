package backtestpage

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// figure has three digits that count, and no exponent.
func figure(x float64) string {
	switch size := math.Abs(x); {
	case math.IsNaN(x):
		return "–"
	case size >= 100 || size == 0:
		return strconv.FormatFloat(x, 'f', 0, 64)
	default:
		digits := 2 - int(math.Floor(math.Log10(size)))
		text := strconv.FormatFloat(x, 'f', min(digits, 6), 64)
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
}

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
	for _, list := range [][]backtest.Report{p.Others, p.Sweep} {
		for _, r := range list {
			rows = append(rows, rowOf(r))
		}
	}
	return rows
}

func rowOf(r backtest.Report) row {
	out := row{Name: r.Name, CPU: [3]string{"–", "–", "–"}, Memory: [2]string{"–", "–"}, Resizes: figure(r.Resizes)}
	if of := r.Of[recommender.CPU]; of.Measured {
		out.CPU = [3]string{slack(of), figure(r.StarvedMinutes), figure(r.DeepMinutes)}
	}
	if of := r.Of[recommender.Memory]; of.Measured {
		out.Memory = [2]string{slack(of), figure(r.OOMHours)}
		if r.Own {
			out.Memory[1] += " (own limit " + figure(r.OwnOOMHours) + ")"
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
			Resource: r.String(), Policy: figure(s.Policy[r]) + " " + units[r], Other: figure(s.Other[r]) + " " + units[r],
			Less: figure(less) + " " + units[r], Part: percent(less / s.Other[r]),
		})
	}
	return rows
}

// amountOf an axis.
func amountOf(r recommender.Resource, x float64) string {
	if r == recommender.CPU {
		if x < 1 {
			return figure(x*1000) + "m"
		}
		return figure(x) + " cores"
	}
	unit, names := 0, []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for x >= 1024 && unit < len(names)-1 {
		x, unit = x/1024, unit+1
	}
	return fmt.Sprintf("%s %s", figure(x), names[unit])
}
