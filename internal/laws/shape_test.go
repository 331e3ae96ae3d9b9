package laws

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Limits of shape: lines and branches of a function, methods and fields of a type. Packages have none: code that belongs
// together would be split only to satisfy it.
const mostLines, mostBranches, mostMethods, mostFields = 60, 15, 40, 20

// measures of the product's code by its syntax: what they are of, such as "lines of resize".
type measures map[string]int

// TestShape: functions are short, types are small.
func TestShape(t *testing.T) {
	m := measured(t)
	limits := map[string]int{"lines of function": mostLines, "branches": mostBranches, "methods": mostMethods, "fields": mostFields}
	for what, n := range m {
		kind, _, _ := strings.Cut(what, " of ")
		if strings.HasPrefix(what, "lines of function ") {
			kind = "lines of function"
		}
		if kind == "lines" {
			continue // of a package: printed alone
		}
		assert.LessOrEqual(t, n, limits[kind], what)
	}
	m.print(t)
}

// print the greatest of each kind.
func (m measures) print(t *testing.T) {
	for _, kind := range []string{"lines of function ", "branches of ", "methods of ", "fields of ", "lines of "} {
		var of []string
		for what := range m {
			if strings.HasPrefix(what, kind) && (kind != "lines of " || !strings.HasPrefix(what, "lines of function ")) {
				of = append(of, what)
			}
		}
		slices.SortFunc(of, func(a, b string) int { return m[b] - m[a] })
		for _, what := range of[:min(3, len(of))] {
			t.Logf("%5d %s", m[what], what)
		}
	}
}

// measured reads the product's code.
func measured(t *testing.T) measures {
	t.Helper()
	m := measures{}
	for _, name := range sources(t) {
		source, err := os.ReadFile(filepath.Join("..", "..", name))
		require.NoError(t, err)
		require.NoError(t, m.file(path.Dir(name), source))
	}
	return m
}

// sources are the product's files: no tests, and nothing that is generated.
func sources(t *testing.T) (names []string) {
	t.Helper()
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{"test", "tools", "bin", ".cluster", ".git"}, rel) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err == nil && !bytes.Contains(source, []byte("// Code generated ")) {
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	}))
	require.NotEmpty(t, names)
	return names
}

func (m measures) file(dir string, source []byte) error {
	m["lines of "+dir] += bytes.Count(source, []byte("\n"))
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	m.fields(dir, file)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		name := f.Name.Name
		if of := receiver(f); of != "" {
			m[fmt.Sprintf("methods of %s in %s", of, dir)]++
			name = of + "." + name
		}
		m[fmt.Sprintf("lines of function %s in %s", name, dir)] = set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1
		m[fmt.Sprintf("branches of %s in %s", name, dir)] = branches(f.Body)
	}
	return nil
}

// fields counts those of the structs that have a name, but for the API's: these follow what users write.
func (m measures) fields(dir string, file *ast.File) {
	if strings.HasPrefix(dir, "api/") {
		return
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if of, ok := spec.Type.(*ast.StructType); ok {
				what := fmt.Sprintf("fields of %s in %s", spec.Name.Name, dir)
				for _, f := range of.Fields.List {
					m[what] += max(1, len(f.Names))
				}
			}
		}
		return true
	})
}

// receiver is the type that a method is of; empty: a function.
func receiver(f *ast.FuncDecl) (name string) {
	if f.Recv == nil {
		return ""
	}
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// branches is the cyclomatic complexity: one, and one more for each if, loop, case and logical operator.
func branches(body *ast.BlockStmt) int {
	n := 1
	ast.Inspect(body, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}
