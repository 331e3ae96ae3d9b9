package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// show prints the table of our own benchmarks, those with a ceiling first and in its order.
func show(w io.Writer, results []result, ceilings []ceiling) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "benchmark\tns/op\tB/op\tallocs/op\tand\theld to\tpromised at most")
	shown := map[string]bool{}
	for _, c := range ceilings {
		i := slices.IndexFunc(results, func(r result) bool { return r.name == c.name })
		if i >= 0 && !shown[c.name] {
			shown[c.name] = true
			row(table, results[i], ceilingsOf(ceilings, c.name), c.promise)
		}
	}
	for _, r := range results {
		if !shown[r.name] {
			row(table, r, "", "")
		}
	}
	table.Flush()
}

// ceilingsOf is everything that a benchmark is held to.
func ceilingsOf(ceilings []ceiling, name string) string {
	var parts []string
	for _, c := range ceilings {
		if c.name == name {
			parts = append(parts, number(c.most)+" "+c.unit)
		}
	}
	return strings.Join(parts, ", ")
}

func row(w io.Writer, r result, ceilingsOf, promise string) {
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.name, r.text("ns/op"), r.text("B/op"), r.text("allocs/op"), r.more(), ceilingsOf, promise)
}

func (r result) text(unit string) string {
	value, ok := r.values[unit]
	if !ok {
		return ""
	}
	return number(value)
}

// number without more digits than it deserves.
func number(x float64) string {
	if x > -10 && x < 10 {
		return fmt.Sprintf("%.2g", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// more is what a benchmark reports beyond the usual.
func (r result) more() string {
	var parts []string
	for _, unit := range r.units {
		switch unit {
		case "ns/op", "B/op", "allocs/op", "MB/s":
		default:
			parts = append(parts, number(r.values[unit])+" "+unit)
		}
	}
	return strings.Join(parts, ", ")
}

// compare prints how many times as much a peer takes for the same work, in the same run.
func compare(w io.Writer, results []result) {
	peers := map[string]result{}
	for _, r := range results {
		peers[r.name] = r
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nthe same work\tunit\tattune\tVPA\tVPA : attune")
	for _, r := range results {
		work, who, _ := strings.Cut(r.name, "/")
		variant, ours := strings.CutPrefix(who, "attune")
		peer, both := peers[work+"/vpa"]
		if !ours || !both {
			continue
		}
		for _, unit := range comparable(r) {
			fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\t%s\n", work, variant, unit, number(r.values[unit]), number(peer.values[unit]), ratio(peer.values[unit], r.values[unit]))
		}
	}
	table.Flush()
}

// comparable units: where memory is weighed, what the weighing itself takes says nothing.
func comparable(r result) []string {
	return slices.DeleteFunc(slices.Clone(r.units), func(unit string) bool {
		_, weighs := r.values["bytes/container"]
		return unit == "MB/s" || weighs && !strings.HasPrefix(unit, "bytes/")
	})
}

func ratio(theirs, ours float64) string {
	if ours <= 0 {
		return "-"
	}
	return number(theirs / ours)
}
