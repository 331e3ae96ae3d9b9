package laws

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reference is the page of the CRDs. Its text before begin is written by hand.
const reference, referenceBegin = "docs/reference/crds.md", "<!-- generated: go test ./internal/laws -run TestReferenceOfCRDs -update -->\n"

// kindsInReference are the kinds in the order of the page, each with a manifest.
var kindsInReference = []struct{ kind, introduction, sample string }{
	{"AttunePolicy", "A policy for workloads of one namespace. Short name `ap`.", "config/samples/policy.yaml"},
	{"AttuneClusterPolicy", "A policy for workloads of many namespaces. Short name `acp`.", "config/samples/clusterpolicy-production.yaml"},
	{"AttuneDefaults", "Settings for all policies of the cluster. Only the object with the name `default` is read. Short name `ad`.", "config/samples/defaults.yaml"},
	{"AttuneNamespaceDefaults", "Settings for all policies of a namespace. Only the object with the name `default` is read. Short name `andf`.", "config/samples/namespacedefaults.yaml"},
	{"AttuneRecommendation", "The recommendation and the state of one workload. Only the operator writes it, so it has no example. Short name `ar`. [API stability](../api-stability.md#what-stays) names the fields that programs may rely on.", ""},
}

// TestReferenceOfCRDs: the page has each field of each CRD, as kubectl explain shows it. TestFieldsAreDescribed checks that
// each has a description, a default and an example.
func TestReferenceOfCRDs(t *testing.T) {
	rows := map[string][]row{}
	fields(t, func(kind string, f field) {
		rows[kind] = append(rows[kind], rowOf(f))
	})
	var page strings.Builder
	for _, of := range kindsInReference {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n", of.kind, of.introduction)
		if of.sample != "" {
			sample, err := os.ReadFile(filepath.Join(root, of.sample))
			require.NoError(t, err)
			fmt.Fprintf(&page, "\n```yaml\n%s```\n", sample)
		}
		writeRows(&page, rows[of.kind], known(rows, of.kind))
	}
	file := filepath.Join(root, reference)
	body, err := os.ReadFile(file)
	require.NoError(t, err)
	head, present, found := strings.Cut(string(body), referenceBegin)
	require.True(t, found, "%s has no line %s", reference, referenceBegin)
	if *updateAPI {
		require.NoError(t, os.WriteFile(file, []byte(head+referenceBegin+page.String()), 0o644))
		return
	}
	assert.Equal(t, page.String(), present, "run: go test ./internal/laws -run TestReferenceOfCRDs -update")
}

// row is one field in the reference.
type row struct {
	path string
	// cells are its type, its default and its description.
	cells [3]string
}

// ofDefault is the sentence of a description with the default. It is the last one, or followed by an example.
var ofDefault = regexp.MustCompile(`(?:Built-in default|Default): (.*?)(?:\.$|\. (?:Example: ))`)

func rowOf(f field) row {
	d := strings.Join(strings.Fields(f.schema.Description), " ")
	builtIn := "–"
	if match := ofDefault.FindStringSubmatch(d); match != nil {
		builtIn = match[1]
	}
	typeName := f.typeName()
	if f.schema.Type == "" && !f.schema.XIntOrString && len(f.schema.Enum) == 0 {
		typeName = "string or object"
	}
	if len(f.schema.Enum) > 0 {
		var values []string
		for _, value := range f.schema.Enum {
			var name string
			_ = json.Unmarshal(value.Raw, &name)
			values = append(values, "`"+name+"`")
		}
		typeName = strings.Replace(typeName, "string", strings.Join(values, ", "), 1)
	}
	return row{f.path, [3]string{typeName, builtIn, d}}
}

// escaped is a text in a cell of a table.
var escaped = strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;", "_", `\_`)

// entries are the settings of a container that repeat settings of the policy.
var entries = regexp.MustCompile(`^containerPolicies\[\]\.(cpu|memory)`)

// known are the rows that the page has already when it comes to a kind, by path: those of AttunePolicy, and of its own cpu
// and memory for its containerPolicies.
func known(rows map[string][]row, kind string) map[string][3]string {
	known := map[string][3]string{}
	for _, r := range rows["AttunePolicy"] {
		section, inside := strings.CutPrefix(r.path, "spec.")
		switch {
		case kind != "AttunePolicy":
			known[r.path] = r.cells
		case inside:
			known["spec.containerPolicies[]."+section] = r.cells
		}
	}
	return known
}

// writeRows writes the tables of spec and status. A row that the page has already is left out, and named below the table.
func writeRows(page *strings.Builder, rows []row, known map[string][3]string) {
	for _, half := range []string{"spec", "status"} {
		begun := false
		var same []string
		for _, r := range rows {
			if !strings.HasPrefix(r.path, half+".") {
				continue
			}
			if known[r.path] == r.cells {
				path := strings.TrimPrefix(r.path, half+".")
				if of := entries.FindString(path); of != "" {
					path = of + ".*"
				}
				if covered := len(same) > 0 && (same[len(same)-1] == path || isBelow(same[len(same)-1], path)); !covered {
					same = append(same, path)
				}
				continue
			}
			if !begun {
				fmt.Fprintf(page, "\n| field of `%s` | type | default | description |\n|---|---|---|---|\n", half)
				begun = true
			}
			fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", strings.TrimPrefix(r.path, half+"."), r.cells[0], escaped.Replace(r.cells[1]), escaped.Replace(r.cells[2]))
		}
		if len(same) > 0 {
			fmt.Fprintf(page, "\nThe same fields as in the `%s` of AttunePolicy: `%s`.\n", half, strings.Join(same, "`, `"))
		}
	}
}

// isBelow reports whether a path is below another one.
func isBelow(section, path string) bool {
	return strings.HasPrefix(path, section+".") || strings.HasPrefix(path, section+"[") || strings.HasPrefix(path, section+"{")
}
