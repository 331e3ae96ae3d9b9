// Package output has the answers of the plugin's verbs and formats them for people. It is pure: an answer is built
// from values and only computes its text. Texts that the web page shares are in internal/answers.
//
//   - table.go: tables.
//   - diff.go, savings.go, node.go: the answers of diff, savings and node.
//   - nearest.go: why a workload has no recommendation (WhyNoRecommendation).
//   - krr.go: recommendations in the format of robusta-dev/krr.
//   - sparkline.go: usage as one line of text.
package output

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"attune.io/attune/internal/answers"
	"attune.io/attune/podview"
)

// Text formats a table with aligned columns. Without wide it tries to fit the table into MostColumns.
func Text(t answers.Table, wide bool) string {
	if wide {
		return layoutOf(t).text()
	}
	return layoutOf(t.Narrow()).fitted().text()
}

// Below returns an empty line and the table; nothing if the table has no rows.
func Below(t answers.Table, wide bool) string {
	if len(t.Rows) == 0 {
		return ""
	}
	return "\n" + Text(t, wide)
}

// dashed replaces empty cells with a dash and keeps each cell in its line and column: texts of other users cannot add
// rows.
func dashed(row []string) []string {
	return podview.Map(row, func(cell string) string { return cmp.Or(answers.InLine(cell), "-") })
}

// MostColumns is the maximum width of a table if names have a common length.
const MostColumns = 100

// why is the header of a last column with sentences.
const why = "WHY"

// layout is how a table is written.
type layout struct {
	header, rows [][]string
	// below has a sentence for each row, to write under it; nil if there are none.
	below []string
	// gap is the number of spaces between columns.
	gap int
}

func layoutOf(t answers.Table) layout {
	return layout{header: [][]string{dashed(t.Header)}, rows: podview.Map(t.Rows, dashed), gap: 3}
}

// fitted returns the first layout that fits: the table unchanged, sentences under their rows, headers in two lines, a
// smaller gap between columns. Each step includes the ones before it. If none fits, it returns the last one.
func (l layout) fitted() layout {
	for _, narrower := range []func(layout) layout{layout.sentencesBelow, layout.headersBroken, func(l layout) layout { l.gap = 2; return l }} {
		if l.width() <= MostColumns {
			break
		}
		l = narrower(l)
	}
	return l
}

// sentencesBelow moves the last column below the rows if it has sentences.
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

// headersBroken splits headers of several words into two lines.
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

// width returns the length of the longest row. Sentences below rows do not count, because they are wrapped.
func (l layout) width() (most int) {
	for _, line := range l.lines() {
		most = max(most, utf8.RuneCountInString(line))
	}
	return most
}

// lines formats the headers and the rows.
func (l layout) lines() (lines []string) {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 8, l.gap, ' ', 0)
	for _, row := range slices.Concat(l.header, l.rows) {
		_, _ = io.WriteString(out, strings.Join(row, "\t")+"\n") // a strings.Builder never returns an error
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

// indent precedes the sentences below a row.
const indent = "    "

// Wrapped breaks a sentence at spaces into lines of at most most columns. A longer word gets its own line.
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

// Where describes the scope for a sentence.
func Where(namespace string) string {
	if namespace == "" {
		return "any namespace"
	}
	return "namespace " + namespace
}
