package resize_test

import (
	"go/ast"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "attune.io/attune/resize"
)

// docs/reasons.md has the gates of each kind of resize in order (TestReasonsInTheDocs).
func TestEveryGateNamesItsKindsAndReasons(t *testing.T) {
	used := map[string]bool{}
	var names []string
	for _, g := range Gates() {
		assert.NotEmpty(t, g.Kinds, g.Name)
		assert.NotEmpty(t, g.Reasons, g.Name)
		names = append(names, g.Name)
		for _, kind := range g.Kinds {
			used[kind] = true
		}
	}
	assert.Len(t, used, len(Kinds), "each kind has a gate")
	slices.Sort(names)
	assert.Len(t, slices.Compact(names), len(Gates()), "a gate has one row")
}

// A row has the reasons that its function returns, and no reason that the function does not mention.
func TestGatesReturnTheReasonsOfTheirRows(t *testing.T) {
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	functions := map[string]*ast.FuncDecl{}
	for _, file := range parsed(t, slices.DeleteFunc(sources, func(name string) bool { return strings.HasSuffix(name, "_test.go") })...) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				functions[f.Name.Name] = f
			}
		}
	}
	constants, _ := meanings(t)
	for _, g := range Gates() {
		returned, mentioned := reasonsOf(functions, constants, g.Name)
		for _, reason := range g.Reasons {
			assert.True(t, mentioned[reason], "%s never mentions %s", g.Name, reason)
		}
		for reason := range returned {
			assert.Contains(t, g.Reasons, reason, g.Name)
		}
	}
}

// reasonsOf returns the reasons that a function and those that it calls pass to Refuse and the like, and all reasons
// in them.
func reasonsOf(functions map[string]*ast.FuncDecl, constants map[string]string, name string) (returned, mentioned map[string]bool) {
	returned, mentioned = map[string]bool{}, map[string]bool{}
	seen := map[string]bool{"Refuse": true, "RefuseForNow": true, "waitUntil": true}
	refuses := maps.Clone(seen)
	var in func(name string)
	in = func(name string) {
		f := functions[name]
		if seen[name] || f == nil {
			return
		}
		seen[name] = true
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if reason := constants[n.Name]; reason != "" {
					mentioned[reason] = true
				}
			case *ast.CallExpr:
				called, ok := n.Fun.(*ast.Ident)
				if !ok {
					break
				}
				for _, arg := range n.Args[:min(len(n.Args), 2)] {
					if reason, ok := arg.(*ast.Ident); ok && refuses[called.Name] && constants[reason.Name] != "" {
						returned[constants[reason.Name]] = true
					}
				}
				in(called.Name)
			}
			return true
		})
	}
	in(name)
	return returned, mentioned
}

// Some gates also answer questions that are no resizes.
func TestGatesOfQuestions(t *testing.T) {
	for question, want := range map[string]string{
		"standing": "paused mode workloadPaused optedOut tooLarge namespaceTerminating verticalAutoscaler noRights recordOpen " +
			"reverting outsideSchedule staleData rollout cooldown nodePressure nodeBlocked neighboursWait",
		"begins":   "RecordsFull quota nodeRoom",
		"stopping": "paused mode workloadPaused optedOut verticalAutoscaler",
		"reverts":  "limitRange quota",
	} {
		var got []string
		for _, g := range Gates() {
			if question == "standing" && g.Narrows {
				break // Blocked asks only the gates before the narrowings
			}
			if slices.Contains(g.Kinds, question) {
				got = append(got, g.Name)
			}
		}
		assert.Equal(t, strings.Fields(want), got, question)
	}
}
