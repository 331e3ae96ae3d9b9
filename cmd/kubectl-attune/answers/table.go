// Package answers has the answers of the plugin's verbs and writes them for people. It is pure: an answer is made of values,
// and computes nothing but its text.
//
//   - table.go, fit.go: tables.
//   - diff.go, savings.go, node_file.go, node_live.go: the answers of diff, savings and node.
//   - krr.go, krr_whole.go: recommendations as robusta-dev/krr writes its own.
//   - sparkline.go: usage as one line of text.
package answers

import (
	"io"

	"attune.io/attune/internal/display"
	"attune.io/attune/internal/explain"
	"attune.io/attune/recommender"
)

// Table is rows under a header. An empty cell is written as a dash, so that columns can be counted.
type Table struct {
	// Header has the names of the columns, in capitals.
	Header []string
	// Rows are in the order in which they are written.
	Rows [][]string
	// Wide: the table may be as wide as it is; else it is made to fit MostColumns, where it can be.
	Wide bool
}

// Add appends a row. It must have as many cells as the header.
func (t *Table) Add(cells ...string) {
	t.Rows = append(t.Rows, cells)
}

// Write writes the table with aligned columns.
func (t Table) Write(w io.Writer) error {
	if t.Wide {
		return t.layout().write(w)
	}
	return t.fitted().write(w)
}

// WriteBelow writes an empty line and the table; nothing where the table has no rows.
func (t Table) WriteBelow(w io.Writer) error {
	if len(t.Rows) == 0 {
		return nil
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return t.Write(w)
}

// dashed returns the row with a dash in the place of empty cells. A cell stays in its line and its column: what others wrote
// makes no rows.
func dashed(row []string) []string {
	cells := make([]string, len(row))
	for i, cell := range row {
		cells[i] = display.InLine(cell)
		if cell == "" {
			cells[i] = "-"
		}
	}
	return cells
}

// Cell returns a rounded amount for people; empty for nil.
func Cell(r recommender.Resource, exact *string) string {
	if exact == nil {
		return ""
	}
	return explain.Readable(r, *exact)
}
