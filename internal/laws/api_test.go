package laws

import (
	"flag"
	"fmt"
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var updateAPI = flag.Bool("update", false, "add new fields to testdata/api.txt")

// apiFile has each field of each CRD, with its type and its values, as docs/api-stability.md promises them.
const apiFile = "testdata/api.txt"

// TestAPIIsStable: a field, its type and the values of an enum stay. New fields and values are added with -update, which
// removes nothing.
func TestAPIIsStable(t *testing.T) {
	var present []string
	fields(t, func(kind string, f field) {
		line := kind + " " + f.path + " " + f.typeName()
		present = append(present, line)
		for _, value := range f.schema.Enum {
			present = append(present, line+" = "+string(value.Raw))
		}
	})
	slices.Sort(present)
	text, err := os.ReadFile(apiFile)
	require.NoError(t, err)
	promised := strings.Split(strings.TrimSpace(string(text)), "\n")
	if *updateAPI {
		promised = append(promised, present...)
		slices.Sort(promised)
		promised = slices.Compact(promised)
		require.NoError(t, os.WriteFile(apiFile, []byte(strings.TrimSpace(strings.Join(promised, "\n"))+"\n"), 0o644))
	}
	for _, line := range promised {
		if _, found := slices.BinarySearch(present, line); !found {
			assert.Fail(t, "the API has no longer: "+line, "Users' manifests have it. Restore it, and deprecate it as docs/api-stability.md says. Only after that time remove the line from %s.", apiFile)
		}
	}
	for _, line := range present {
		if !slices.Contains(promised, line) {
			assert.Fail(t, "new in the API: "+line, "From the next release on it stays. If its name and type follow docs/api-stability.md, run: go test ./internal/laws -run TestAPIIsStable -update")
		}
	}
}

// typeName is the type of a field as kubectl explain shows it, whether it is required, and the keys of a list.
func (f field) typeName() string {
	s, name := f.schema, f.schema.Type
	switch {
	case s.XIntOrString:
		name = "int-or-string"
	case s.Items != nil:
		name = "list of " + s.Items.Schema.Type
		if s.XListType != nil {
			name += fmt.Sprintf(" (%s%s)", *s.XListType, strings.Join(append([]string{""}, s.XListMapKeys...), " "))
		}
	case s.AdditionalProperties != nil:
		name = "map of " + s.AdditionalProperties.Schema.Type
	case s.Format != "":
		name += " " + s.Format
	}
	if f.required {
		name += " required"
	}
	return name
}

// TestConventions checks names and types of fields by the conventions of the Kubernetes API.
func TestConventions(t *testing.T) {
	fields(t, func(kind string, f field) {
		if ofKubernetes.MatchString(f.path) || strings.Contains(f.path, "conditions[]") {
			return
		}
		name, at := f.path[strings.LastIndex(f.path, ".")+1:], kind+" "+f.path
		assert.Regexp(t, `^[a-z][a-zA-Z0-9]*$`, name, at+": camelCase")
		assert.NotEqual(t, "number", f.schema.Type, at+": no floating-point numbers, a string or an integer")
		assert.NotRegexp(t, `^(is|has)[A-Z]`, name, at+": booleans without a verb")
		if f.schema.Items != nil {
			assert.NotNil(t, f.schema.XListType, at+": lists have a type, so that server-side apply can merge them")
		}
		for _, value := range f.schema.Enum {
			assert.Regexp(t, `^"([A-Z][A-Za-z]*|cpu|memory|[<>]=?|\\u003[ce]=?)"$`, string(value.Raw), at+": values in CamelCase")
		}
	})
}

// TestMetricNames: counters end in _total, and gauges and histograms do not.
func TestMetricNames(t *testing.T) {
	seen := 0
	eachFile(t, func(dir string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			literal, is := n.(*ast.CompositeLit)
			if !is {
				return true
			}
			of, is := literal.Type.(*ast.SelectorExpr)
			if !is || !strings.HasSuffix(of.Sel.Name, "Opts") {
				return true
			}
			for _, element := range literal.Elts {
				pair, is := element.(*ast.KeyValueExpr)
				if !is || fmt.Sprint(pair.Key) != "Name" {
					continue
				}
				if name, is := pair.Value.(*ast.BasicLit); is {
					seen++
					assert.Equal(t, of.Sel.Name == "CounterOpts", strings.HasSuffix(name.Value, `_total"`), "%s: %s has the name %s", dir, of.Sel.Name, name.Value)
				}
			}
			return true
		})
	})
	assert.Greater(t, seen, 5)
}
