package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"
)

// format is the value of -o.
type format string

const (
	// formatTable is the default. formatWide adds columns; both are for people.
	formatTable format = "table"
	formatWide  format = "wide"
	// formatJSON and formatYAML have the same fields, which are a contract.
	formatJSON format = "json"
	formatYAML format = "yaml"
)

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "format" }

// Set implements pflag.Value. It refuses unknown formats.
func (f *format) Set(value string) error {
	switch known := format(value); known {
	case formatTable, formatWide, formatJSON, formatYAML:
		*f = known
		return nil
	}
	return fmt.Errorf("use table, wide, json or yaml")
}

// document is the answer of a verb. Its JSON and YAML are a contract with scripts.
type document interface {
	// Human writes the answer for people; wide is true for -o wide. The text may change between versions.
	Human(w io.Writer, wide bool) error
}

// print writes the answer to stdout in the format of -o.
// An answer without rows is printed too: as empty lists in JSON and YAML, and as nothing in a table.
func (e *environment) print(answer document) error {
	switch e.format {
	case formatJSON:
		// The JSON is indented, since people read it too.
		encoder := json.NewEncoder(e.Out)
		// Messages hold signs such as < and &, which need no escapes outside of HTML.
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(answer)
	case formatYAML:
		text, err := yaml.Marshal(answer)
		if err != nil {
			return err
		}
		_, err = e.Out.Write(text)
		return err
	}
	return answer.Human(e.Out, e.format == formatWide)
}

// table is rows under a header. An empty cell is written as a dash, so that columns can be counted.
type table struct {
	// header has the names of the columns, in capitals.
	header []string
	// rows are in the order in which they are written.
	rows [][]string
}

// add appends a row. It must have as many cells as the header.
func (t *table) add(cells ...string) {
	t.rows = append(t.rows, cells)
}

// write writes the table with aligned columns.
func (t table) write(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	for _, row := range append([][]string{t.header}, t.rows...) {
		fmt.Fprintln(out, strings.Join(dashed(row), "\t"))
	}
	return out.Flush()
}

// dashed returns the row with a dash in the place of empty cells.
func dashed(row []string) []string {
	cells := make([]string, len(row))
	for i, cell := range row {
		cells[i] = cell
		if cell == "" {
			cells[i] = "-"
		}
	}
	return cells
}
