package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

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
	// formatKRR is the JSON of the program KRR; only recommendations supports it.
	formatKRR format = "krr"
	// formatHTML is a self-contained page; only backtest supports it.
	formatHTML format = "html"
)

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "format" }

// Set implements pflag.Value. It rejects unknown formats.
func (f *format) Set(value string) error {
	switch known := format(value); known {
	case formatTable, formatWide, formatJSON, formatYAML, formatKRR, formatHTML:
		*f = known
		return nil
	}
	return fmt.Errorf("must be table, wide, json or yaml; krr for recommendations; html for backtest")
}

// fits returns an error if a verb does not support the format.
func (f *format) fits(verb string) error {
	switch {
	case *f == formatHTML && verb != "backtest":
		return fmt.Errorf("-o html is only for backtest: use table, wide, json or yaml with %s", verb)
	case *f == formatKRR && verb != "recommendations":
		return fmt.Errorf("-o krr is only for recommendations: use table, wide, json or yaml with %s", verb)
	}
	return nil
}

// document is the answer of a verb. Its JSON and YAML are a contract with scripts.
type document interface {
	// Human returns the answer for people; wide is true for -o wide. The text may change between versions.
	Human(wide bool) (string, error)
}

// print writes the answer to stdout in the format of -o. It also prints an answer without rows: as empty lists in JSON
// and YAML, and as nothing in a table.
func (e *environment) print(answer document) error {
	if e.watch != nil {
		changed, first, err := e.watch.Changed(answer)
		if err != nil || !changed {
			return err
		}
		if separator := map[format]string{formatYAML: "---", formatJSON: "", formatKRR: ""}; !first {
			fmt.Fprintln(e.Out, separator[e.format])
		}
	}
	text, err := e.render(answer)
	if err == nil {
		_, err = io.WriteString(e.Out, text)
	}
	return err
}

// render returns the answer in the format of -o.
func (e *environment) render(answer document) (string, error) {
	switch e.format {
	case formatJSON, formatKRR:
		var text strings.Builder
		// Indent the JSON, because people read it too.
		encoder := json.NewEncoder(&text)
		// Messages contain characters such as < and &, which need no escapes outside HTML.
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err := encoder.Encode(answer)
		return text.String(), err
	case formatYAML:
		text, err := yaml.Marshal(answer)
		return string(text), err
	}
	return answer.Human(e.format == formatWide)
}
