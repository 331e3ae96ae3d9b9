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
	formatTable format = "table"
	formatWide  format = "wide"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

// String, Set and Type implement pflag.Value.
func (f *format) String() string { return string(*f) }

func (f *format) Type() string { return "format" }

func (f *format) Set(value string) error {
	switch known := format(value); known {
	case formatTable, formatWide, formatJSON, formatYAML:
		*f = known
		return nil
	}
	return fmt.Errorf("use table, wide, json or yaml")
}

// document is a verb's answer. Its JSON is what scripts rely on; Human is for people and may change.
type document interface {
	Human(w io.Writer, wide bool) error
}

// print writes the answer in the format of -o.
func (e *environment) print(answer document) error {
	switch e.format {
	case formatJSON:
		encoder := json.NewEncoder(e.Out)
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

// table is rows under a header; an empty cell is shown as a dash.
type table struct {
	header []string
	rows   [][]string
}

func (t *table) add(cells ...string) {
	t.rows = append(t.rows, cells)
}

func (t table) write(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	for _, row := range append([][]string{t.header}, t.rows...) {
		fmt.Fprintln(out, strings.Join(dashed(row), "\t"))
	}
	return out.Flush()
}

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
