package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The rulers of this file measure what a reader has to hold in mind. Each has a list of what is still owed: it holds today's
// figures exactly, so it can only shrink.

// mostDepth is the longest chain of imports within the module. A package with one importer and fewer lines than leastLines
// belongs to its importer, unless a law of its own says what it must not depend on.
const mostDepth, leastLines = 10, 300

// owedSmall are packages with one importer and few lines.
var owedSmall []string

// onePerIdea are exported names that mean one thing each, and the packages that still define them.
var onePerIdea = map[string][]string{
	"Container": {"podview", "recommender/node", "resize/climb", "webhook/pod"},
	"Sample":    {"recommender/backtest", "resize/climb", "usage"},
}

// shells are the packages that read the clock; every other one is given the time.
var shells = []string{"cmd/attune", "cmd/kubectl-attune", "internal/loop", "internal/ports", "usage/prometheus"}

// owedShells read the clock and should be given the time.
var owedShells = []string{"ui"}

// TestFamilies counts methods and fields over all types that embed one struct, because they share its state.
func TestFamilies(t *testing.T) {
	found := map[string]int{}
	for dir, all := range structs(t) {
		for name := range all {
			if n := all.methods(name); n > mostMethods {
				found["methods of "+name+" in "+dir] = n
			}
			if n := all.fields(name); n > mostFields && !strings.HasPrefix(dir, "api/") {
				found["fields of "+name+" in "+dir] = n
			}
		}
	}
	assert.Empty(t, found, "a family of types is above the limit of %d methods and %d fields", mostMethods, mostFields)
}

// TestDepth: a chain of imports within the module is short.
func TestDepth(t *testing.T) {
	imports := map[string][]string{}
	for _, p := range packages(t) {
		if strings.HasPrefix(p.ImportPath, module) {
			imports[p.ImportPath] = slices.DeleteFunc(slices.Clone(p.Imports), func(i string) bool { return !strings.HasPrefix(i, module) })
		}
	}
	deepest := map[string][]string{}
	var chain func(string) []string
	chain = func(of string) []string {
		if known, ok := deepest[of]; ok {
			return known
		}
		var longest []string
		for _, i := range imports[of] {
			if c := chain(i); len(c) > len(longest) {
				longest = c
			}
		}
		deepest[of] = append([]string{strings.TrimPrefix(of, module)}, longest...)
		return deepest[of]
	}
	var longest []string
	for _, of := range slices.Sorted(maps.Keys(imports)) {
		if c := chain(of); len(c) > len(longest) {
			longest = c
		}
	}
	// The chain has one import fewer than packages.
	assert.LessOrEqual(t, len(longest)-1, mostDepth, "the longest chain of imports is %s", strings.Join(longest, " → "))
}

// TestSmallPackages: a small package with one importer belongs to its importer.
func TestSmallPackages(t *testing.T) {
	importers, lines := map[string]int{}, measured(t)
	all := packages(t)
	for _, p := range all {
		if strings.HasPrefix(p.ImportPath, module) {
			for _, i := range p.Imports {
				importers[strings.TrimPrefix(i, module)]++
			}
		}
	}
	lawful := map[string]bool{}
	for _, l := range laws {
		lawful[l.within] = true
	}
	var small []string
	for _, p := range all {
		dir, ours := strings.CutPrefix(p.ImportPath, module)
		if ours && importers[dir] == 1 && lines["lines of "+dir] < leastLines && !lawful[dir] {
			small = append(small, dir)
		}
	}
	slices.Sort(small)
	assert.Equal(t, owedSmall, small, "a package has one importer and fewer than %d lines: move it there. Or one that was owed is gone: strike it off", leastLines)
}

// TestOneTypePerIdea: a name that means one thing is defined once.
func TestOneTypePerIdea(t *testing.T) {
	found := map[string][]string{}
	for name := range onePerIdea {
		found[name] = []string{}
	}
	for dir, all := range structs(t) {
		for name := range all {
			if _, asked := found[name]; asked {
				found[name] = append(found[name], dir)
			}
		}
	}
	for name, in := range found {
		slices.Sort(in)
		if len(in) <= 1 {
			found[name] = []string{}
		}
	}
	assert.Equal(t, onePerIdea, found)
}

// TestClocks: only shells read the time.
func TestClocks(t *testing.T) {
	readers := map[string]bool{}
	eachFile(t, func(dir string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if of, ok := s.X.(*ast.Ident); ok && of.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name) {
					readers[dir] = true
				}
			}
			return true
		})
	})
	assert.ElementsMatch(t, slices.Concat(shells, owedShells), slices.Collect(maps.Keys(readers)), "these packages read the clock")
}

// TestConditionTimes: meta.SetStatusCondition reads the clock if a condition has no time. Only v1alpha1.SetCondition calls
// it, which requires the time of the loop.
func TestConditionTimes(t *testing.T) {
	callers := map[string]bool{}
	eachFile(t, func(dir string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "SetStatusCondition" {
				callers[dir] = true
			}
			return true
		})
	})
	assert.Equal(t, map[string]bool{"api/v1alpha1": true}, callers, "set conditions with v1alpha1.SetCondition")
}

// family is what the types of a package are: their own methods and fields, and the structs of the package that they embed.
type family map[string]*structure

type structure struct {
	methods, fields int
	embeds          []string
}

// methods of a type and of all that embed it, directly or not.
func (f family) methods(of string) int {
	n := 0
	for name, s := range f {
		if name == of || f.embeds(name, of) {
			n += s.methods
		}
	}
	return n
}

// fields of a type and of all that it embeds.
func (f family) fields(of string) int {
	n := f[of].fields
	for _, e := range f[of].embeds {
		if f[e] != nil {
			n += f.fields(e) - 1 // the embedding is counted as a field already
		}
	}
	return n
}

func (f family) embeds(of, what string) bool {
	return slices.ContainsFunc(f[of].embeds, func(e string) bool { return e == what || f[e] != nil && f.embeds(e, what) })
}

// structs of the product, by folder.
func structs(t *testing.T) map[string]family {
	t.Helper()
	all := map[string]family{}
	at := func(dir, name string) *structure {
		if all[dir] == nil {
			all[dir] = family{}
		}
		if all[dir][name] == nil {
			all[dir][name] = &structure{}
		}
		return all[dir][name]
	}
	eachFile(t, func(dir string, file *ast.File) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				at(dir, receiver(f)).methods++
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			s := at(dir, spec.Name.Name)
			if of, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range of.Fields.List {
					s.fields += max(1, len(field.Names))
					if len(field.Names) == 0 {
						s.embeds = append(s.embeds, typeName(field.Type))
					}
				}
			}
			return true
		})
	})
	require.NotEmpty(t, all)
	return all
}

// typeName is that of a type of the same package, without its pointer and parameters; empty: of another package.
func typeName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.IndexExpr:
		return typeName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// eachFile of the product's code, as sources lists them.
func eachFile(t *testing.T, f func(dir string, file *ast.File)) {
	t.Helper()
	for _, name := range sources(t) {
		body, err := os.ReadFile(filepath.Join("..", "..", name))
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), name, body, parser.SkipObjectResolution|parser.ParseComments)
		require.NoError(t, err)
		f(path.Dir(name), file)
	}
}

// TestFamiliesAreCounted: what types share by embedding counts for all of them.
func TestFamiliesAreCounted(t *testing.T) {
	f := family{
		"base":  {methods: 3, fields: 4},
		"left":  {methods: 2, fields: 1, embeds: []string{"base"}},
		"right": {methods: 1, fields: 3, embeds: []string{"left", "elsewhere"}},
		"alone": {methods: 7, fields: 2},
	}
	assert.Equal(t, []int{6, 3, 1, 7}, []int{f.methods("base"), f.methods("left"), f.methods("right"), f.methods("alone")})
	assert.Equal(t, []int{4, 4, 6, 2}, []int{f.fields("base"), f.fields("left"), f.fields("right"), f.fields("alone")})
}

// quantityParsers are the packages that call resource.ParseQuantity. It takes minutes for a text such as 1e-90000000, so
// others call workload.ParseQuantity. cmd/attune reads its own environment, usage/csvfile accepts no exponents.
var quantityParsers = []string{"cmd/attune", "internal/workload", "usage/csvfile"}

func TestQuantitiesAreParsedWithBoundedWork(t *testing.T) {
	callers := map[string]bool{}
	eachFile(t, func(dir string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "ParseQuantity" {
				if of, ok := s.X.(*ast.Ident); ok && of.Name == "resource" {
					callers[dir] = true
				}
			}
			return true
		})
	})
	assert.ElementsMatch(t, quantityParsers, slices.Collect(maps.Keys(callers)))
}
