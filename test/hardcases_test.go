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
			for _, name := range row.tests {
				strongest = max(strongest, findTest(t, tests, name))
			}
			assert.Equal(t, strongest.String(), row.where)
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

func tierOf(dir string) tier {
	switch {
	case strings.HasPrefix(dir, "test/e2e"), strings.HasPrefix(dir, "test/cluster"):
		return kubelet
	case strings.HasPrefix(dir, "test/killed"), strings.HasPrefix(dir, "test/integration"):
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

// goTest is a test function and every text in it: the names of its subtests are among them.
type goTest struct {
	dir   string
	texts map[string]bool
}

// findTest is where a test is, named as TestName or TestName/subtest.
func findTest(t *testing.T, tests map[string][]goTest, name string) tier {
	t.Helper()
	function, subtest, _ := strings.Cut(name, "/")
	var found []goTest
	for _, candidate := range tests[function] {
		if subtest == "" || candidate.texts[subtest] {
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
					tests[f.Name.Name] = append(tests[f.Name.Name], goTest{dir, textsIn(f, variables)})
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

func textsIn(node ast.Node, variables map[string]ast.Node) map[string]bool {
	texts := map[string]bool{}
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				texts[text] = true
			}
		case *ast.Ident:
			if variable, ok := variables[n.Name]; ok {
				for text := range textsIn(variable, nil) {
					texts[text] = true
				}
			}
		}
		return true
	})
	return texts
}
