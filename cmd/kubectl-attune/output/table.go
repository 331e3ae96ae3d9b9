// Package output has the answers of the plugin's verbs and writes them for people. It is pure: an answer is made of values, and
// computes nothing but its text. What the web page answers too is in internal/answers.
//
//   - table.go: tables.
//   - diff.go, savings.go, node.go: the answers of diff, savings and node.
//   - nearest.go: why a workload has no recommendation (WhyNoRecommendation).
//   - krr.go: recommendations as robusta-dev/krr writes its own.
//   - sparkline.go: usage as one line of text.
package output

import (
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"attune.io/attune/internal/answers"
)

// Text is a table with aligned columns. Not wide, it is made to fit MostColumns, where it can be.
func Text(t answers.Table, wide bool) string {
	if wide {
		return layoutOf(t).text()
	}
	return layoutOf(t.Narrow()).fitted().text()
}

// Below is an empty line and the table; nothing where the table has no rows.
func Below(t answers.Table, wide bool) string {
	if len(t.Rows) == 0 {
		return ""
	}
	return "\n" + Text(t, wide)
}

// dashed returns the row with a dash in the place of empty cells. A cell stays in its line and its column: what others wrote
// makes no rows.
func dashed(row []string) []string {
	cells := make([]string, len(row))
	for i, cell := range row {
		cells[i] = answers.InLine(cell)
		if cell == "" {
			cells[i] = "-"
		}
	}
	return cells
}

// MostColumns is how many columns of a terminal a table takes, where names of usual length let it.
const MostColumns = 100

// why is the header of a last column that has sentences.
const why = "WHY"

// layout is how a table is written.
type layout struct {
	header, rows [][]string
	// below are sentences, each of which is written under its row; nil: none are.
	below []string
	// gap is the number of spaces between columns.
	gap int
}

func layoutOf(t answers.Table) layout {
	l := layout{header: [][]string{dashed(t.Header)}, gap: 3}
	for _, row := range t.Rows {
		l.rows = append(l.rows, dashed(row))
	}
	return l
}

// fitted is the first of these that fits: the table as it is; sentences under their rows; headers in two lines; and less room
// between columns. A table that fits in none of these is written in the last one.
func (l layout) fitted() layout {
	for _, narrower := range []func(layout) layout{layout.sentencesBelow, layout.headersBroken, func(l layout) layout { l.gap = 2; return l }} {
		if l.width() <= MostColumns {
			break
		}
		l = narrower(l)
	}
	return l
}

// sentencesBelow takes the last column off where it has sentences.
func (l layout) sentencesBelow() layout {
	last := len(l.header[0]) - 1
	if l.header[0][last] != why {
		return l
	}
	for i, row := range l.rows {
		l.below, l.rows[i] = append(l.below, row[last]), row[:last]
	}
	l.header = [][]string{l.header[0][:last]}
	return l
}

// headersBroken writes headers of several words in two lines.
func (l layout) headersBroken() layout {
	first, second := make([]string, len(l.header[0])), make([]string, len(l.header[0]))
	for i, name := range l.header[0] {
		first[i], second[i] = broken(name)
	}
	if slices.IndexFunc(second, func(s string) bool { return s != "" }) >= 0 {
		l.header = [][]string{first, second}
	}
	return l
}

// broken splits words into two lines of about the same length.
func broken(name string) (first, second string) {
	words := strings.Fields(name)
	for n := 1; n < len(words); n++ {
		if a, b := strings.Join(words[:n], " "), strings.Join(words[n:], " "); second == "" || max(len(a), len(b)) < max(len(first), len(second)) {
			first, second = a, b
		}
	}
	if second == "" {
		return name, ""
	}
	return first, second
}

// width is that of the longest row. Sentences below rows are wrapped.
func (l layout) width() (most int) {
	for _, line := range l.lines() {
		most = max(most, utf8.RuneCountInString(line))
	}
	return most
}

// lines are those of headers and rows.
func (l layout) lines() (lines []string) {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 8, l.gap, ' ', 0)
	for _, row := range slices.Concat(l.header, l.rows) {
		_, _ = io.WriteString(out, strings.Join(row, "\t")+"\n") // a builder takes everything
	}
	_ = out.Flush()
	for line := range strings.Lines(text.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return lines
}

func (l layout) text() string {
	var text strings.Builder
	for i, line := range l.lines() {
		text.WriteString(line + "\n")
		if n := i - len(l.header); n >= 0 && n < len(l.below) {
			for _, part := range Wrapped(l.below[n], MostColumns-len(indent)) {
				text.WriteString(indent + part + "\n")
			}
		}
	}
	return text.String()
}

// indent stands before the sentences below a row.
const indent = "    "

// Wrapped breaks a sentence at its spaces into lines of at most so many columns. A longer word has a line of its own.
func Wrapped(sentence string, most int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(sentence) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > most:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// Where returns the scope in words, for a sentence.
func Where(namespace string) string {
	if namespace == "" {
		return "any namespace"
	}
	return "namespace " + namespace
}
