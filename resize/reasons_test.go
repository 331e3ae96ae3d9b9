package resize_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "attune.io/attune/resize"
)

// parsed returns the files by name.
func parsed(t *testing.T, names ...string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		files[name] = file
	}
	return files
}

// meanings returns the reasons of reasons.go by the names of their constants, and their meanings by reason.
func meanings(t *testing.T) (reasons, means map[string]string) {
	t.Helper()
	values, reasons, means := map[string]string{}, map[string]string{}, map[string]string{}
	const own, api = "reasons.go", "../api/v1alpha1/names.go"
	files := parsed(t, own, api)
	for _, name := range []string{api, own} {
		ast.Inspect(files[name], func(n ast.Node) bool {
			of, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(of.Names[0].Name, "Reason") || len(of.Values) != 1 {
				return true
			}
			constant := of.Names[0].Name
			switch value := of.Values[0].(type) {
			case *ast.BasicLit:
				unquoted, err := strconv.Unquote(value.Value)
				require.NoError(t, err)
				values[constant] = unquoted
			case *ast.SelectorExpr: // a constant of the API
				values[constant] = values[value.Sel.Name]
			default:
				return true
			}
			if name == own {
				reasons[constant] = values[constant]
				means[values[constant]] = strings.TrimSpace(of.Comment.Text())
			}
			return true
		})
	}
	return reasons, means
}

// A new reason fails here until it has a sentence, and a row in Reasons with the objects that lift it.
func TestEveryReasonHasAMeaningAndALifter(t *testing.T) {
	reasons, means := meanings(t)
	assert.Greater(t, len(reasons), 90)
	assert.Len(t, means, len(reasons), "two constants with one value")
	assert.Equal(t, slices.Sorted(maps.Keys(means)), slices.Sorted(maps.Keys(Reasons)))
	for reason, sentence := range means {
		assert.True(t, strings.HasSuffix(sentence, ".") && !strings.Contains(sentence, "\n"), "%s: one sentence beside the constant", reason)
	}
}

var update = flag.Bool("update", false, "write docs/reasons.md")

// The page has each reason with its sentence and the objects that lift it, and the gates of each kind of resize in order.
func TestReasonsInTheDocs(t *testing.T) {
	const file, begin, end = "../docs/reasons.md", "<!-- generated -->\n", "<!-- end of generated -->"
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	parts := strings.Split(string(page), begin)
	require.Len(t, parts, 3)
	for i, want := range []string{reasonsTable(t), gatesTable()} {
		documented, after, found := strings.Cut(parts[i+1], end)
		require.True(t, found)
		parts[i+1] = want + end + after
		if !*update {
			assert.Equal(t, want, documented, "run: go test ./resize -run TestReasonsInTheDocs -update")
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(parts, begin)), 0o644))
	}
}

func reasonsTable(t *testing.T) string {
	lifters := map[Lifter]string{
		LifterNode: "the node or its pods", LifterQuotas: "ResourceQuotas", LifterLimits: "LimitRanges", LifterBudgets: "PodDisruptionBudgets",
	}
	_, means := meanings(t)
	table := "\n| reason | meaning | lifted by a change of |\n|---|---|---|\n"
	for _, reason := range slices.Sorted(maps.Keys(means)) {
		var by []string
		for _, lifter := range Reasons[reason] {
			by = append(by, lifters[lifter])
		}
		table += fmt.Sprintf("| `%s` | %s | %s |\n", reason, means[reason], cmp.Or(strings.Join(by, ", "), "–"))
	}
	return table + "\n"
}

func gatesTable() string {
	columns := []string{"step", "OOM", "undo", "start", "restore", "boost", "spike"} // the words for Kinds
	table := "\n| reason | blocks | " + strings.Join(columns, " | ") + " |\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n"
	for _, g := range Gates() {
		blocks := "the pod"
		if g.Narrows {
			blocks = "a container's resource"
		}
		table += fmt.Sprintf("| `%s` | %s |", strings.Join(g.Reasons, "`, `"), blocks)
		for i := range columns {
			mark := "–"
			if slices.Contains(g.Kinds, Kinds[i]) {
				mark = "yes"
			}
			table += " " + mark + " |"
		}
		table += "\n"
	}
	return table + "\n"
}
