// Package test holds what concerns all tests of the project.
package test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hardCases is how many there are: each has a row in hard-cases.md.
const hardCases = 96

// TestEveryHardCaseNamesATest: the table has a row for each case, each names tests that are in the tree, and
// says rightly where the strongest of them runs.
func TestEveryHardCaseNamesATest(t *testing.T) {
	tests := testsBelow(t, "..")
	rows := readHardCases(t)
	require.Len(t, rows, hardCases)
	for i, row := range rows {
		t.Run(strconv.Itoa(i+1), func(t *testing.T) {
			assert.Equal(t, i+1, row.number)
			assert.NotEmpty(t, row.text)
			require.NotEmpty(t, row.tests)
			var strongest tier
			seen := false
			for _, name := range row.tests {
				found := findTest(t, tests, name)
				if isProbe(name) {
					seen = true
				} else {
					strongest = max(strongest, found)
				}
			}
			assert.Equal(t, whereOf(strongest, seen), row.where)
		})
	}
}

// tier is how real what a test runs against is.
type tier int

const (
	pure tier = iota + 1
	apiserver
	kubelet
)

func (t tier) String() string { return [...]string{"", "pure", "apiserver", "kubelet"}[t] }

// isProbe: the test resizes pods by hand, to see what a kubelet does. One part of TestLittleRoom has attune at work.
func isProbe(name string) bool {
	function, subtest, _ := strings.Cut(name, "/")
	return function == "TestKubelet" || function == "TestLittleRoom" && !strings.HasPrefix(subtest, "69 ")
}

// whereOf is where attune is at work in the strongest test of a case, and whether the platform was seen by itself.
func whereOf(strongest tier, platform bool) string {
	switch {
	case strongest == 0:
		return "platform"
	case platform && strongest < kubelet:
		return strongest.String() + " + platform"
	}
	return strongest.String()
}

func tierOf(dir string) tier {
	switch {
	case strings.HasPrefix(dir, "test/e2e"), strings.HasPrefix(dir, "test/cluster"):
		return kubelet
	case strings.HasPrefix(dir, "test/crash"), strings.HasPrefix(dir, "test/integration"), strings.HasPrefix(dir, "test/loops"):
		return apiserver
	}
	return pure
}

// hardCase is a row of the table.
type hardCase struct {
	number int
	text   string
	tests  []string
	where  string
}

var (
	rowOfTable = regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
	codeSpan   = regexp.MustCompile("`([^`]+)`")
)

func readHardCases(t *testing.T) []hardCase {
	t.Helper()
	page, err := os.ReadFile("hard-cases.md")
	require.NoError(t, err)
	var rows []hardCase
	for _, m := range rowOfTable.FindAllStringSubmatch(string(page), -1) {
		number, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		row := hardCase{number: number, text: m[2], where: m[4]}
		for _, span := range codeSpan.FindAllStringSubmatch(m[3], -1) {
			row.tests = append(row.tests, span[1])
		}
		rows = append(rows, row)
	}
	return rows
}

// goTest is a test function and what its subtests may be named: what it calls Run with, and the rows of its tables.
type goTest struct {
	dir      string
	subtests map[string]bool
}

// findTest is where a test is, named as TestName or TestName/subtest.
func findTest(t *testing.T, tests map[string][]goTest, name string) tier {
	t.Helper()
	function, subtest, _ := strings.Cut(name, "/")
	var found []goTest
	for _, candidate := range tests[function] {
		if subtest == "" || candidate.subtests[subtest] {
			found = append(found, candidate)
		}
	}
	require.NotEmpty(t, found, "there is no test %s", name)
	slices.SortFunc(found, func(a, b goTest) int { return cmp.Compare(tierOf(a.dir), tierOf(b.dir)) })
	first, last := tierOf(found[0].dir), tierOf(found[len(found)-1].dir)
	assert.Equal(t, first, last, "%s is in %s and in %s", name, found[0].dir, found[len(found)-1].dir)
	return first
}

// testsBelow are all test functions of the project, by name.
func testsBelow(t *testing.T, root string) map[string][]goTest {
	t.Helper()
	byDir := map[string][]*ast.File{}
	files := token.NewFileSet()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		byDir[filepath.ToSlash(dir)] = append(byDir[filepath.ToSlash(dir)], file)
		return err
	}))
	tests := map[string][]goTest{}
	for dir, files := range byDir {
		variables := packageVariables(files)
		for _, file := range files {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
					tests[f.Name.Name] = append(tests[f.Name.Name], goTest{dir, subtestsIn(f, variables)})
				}
			}
		}
	}
	return tests
}

// packageVariables are where tables of subtests may be.
func packageVariables(files []*ast.File) map[string]ast.Node {
	variables := map[string]ast.Node{}
	for _, file := range files {
		for _, d := range file.Decls {
			declaration, ok := d.(*ast.GenDecl)
			if !ok || declaration.Tok != token.VAR {
				continue
			}
			for _, s := range declaration.Specs {
				for _, name := range s.(*ast.ValueSpec).Names {
					variables[name.Name] = s
				}
			}
		}
	}
	return variables
}

// subtestsIn are the names in a function, and in the tables of its package that it uses.
func subtestsIn(node ast.Node, variables map[string]ast.Node) map[string]bool {
	names := map[string]bool{}
	add := func(e ast.Expr) {
		if text, ok := textOf(e); ok {
			names[text] = true
		}
	}
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if isRun(n.Fun) && len(n.Args) == 2 {
				add(n.Args[0])
			}
		case *ast.CompositeLit:
			for i, element := range n.Elts {
				addRow(i, element, add)
			}
		case *ast.Ident:
			if variable, ok := variables[n.Name]; ok {
				for name := range subtestsIn(variable, nil) {
					names[name] = true
				}
			}
		}
		return true
	})
	return names
}

// isRun: t.Run, or a function of a test's own around it.
func isRun(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name == "Run"
	case *ast.Ident:
		return f.Name == "run"
	}
	return false
}

// addRow adds the name of a table's row: the key of a map, the field name of a struct, or its first field.
func addRow(i int, element ast.Expr, add func(ast.Expr)) {
	pair, keyed := element.(*ast.KeyValueExpr)
	if !keyed {
		if i == 0 {
			add(element)
		}
		return
	}
	if field, ok := pair.Key.(*ast.Ident); ok && field.Name == "name" {
		add(pair.Value)
		return
	}
	add(pair.Key)
}

func textOf(e ast.Expr) (string, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

// TestOnlySubtestsAreSubtests: what a test says when it fails is not the name of a part of it.
func TestOnlySubtestsAreSubtests(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "a_test.go", `package a
var table = []row{{"first", 1}, {name: "second", text: "no name"}}
func TestA(t *testing.T) {
	for _, r := range table { t.Run(r.name, nil) }
	for name := range map[string]int{"third": 1} { t.Run(name, nil) }
	run("fourth", nil)
	t.Run("fifth", nil)
	eventually(t, "a message", nil)
	assert.Equal(t, "a value", []int{1}, "another message")
}`, 0)
	require.NoError(t, err)
	files := []*ast.File{file}
	assert.Equal(t, map[string]bool{"first": true, "second": true, "third": true, "fourth": true, "fifth": true},
		subtestsIn(file.Decls[1], packageVariables(files)))
}
