package laws

import (
	"go/ast"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mostMarkers is how many markers a package or a page may have in 1,000 words. A marker is a phrase of a private dialect, where
// Kubernetes' own documentation has a plain one: the glossary of docs/README.md has the terms. Texts of fewer than leastWords
// may have one marker.
const mostMarkers, leastWords = 3, 350

// markers each match one phrase. Go's regular expressions have no lookahead: a phrase that is plain in some uses is matched by
// the words around those that are not.
var markers = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(?:those|that) of\b`),
	regexp.MustCompile(`(?i)\b(?:nobody|somebody|whoever|whomever|whom)\b`),
	regexp.MustCompile(`(?:(?i)\b(?:of|to|from|by|for|with|than|and|but|so|as)|[.:;,]) who\b`),
	regexp.MustCompile(`(?:^|[.:;] )What (?:[a-z]+ )*?(?:is|was|has|are|were|have|had|does|did|can|may|must|the|a|an|it|they|pods?|nodes?)\b`),
	regexp.MustCompile(`(?i)\b(?:tells?|told|says?|said) of\b|\b(?:is|are|was|were|be|been) (?:told|taught)\b`),
	regexp.MustCompile(`(?i)\b(?:or|and|who|what|all|nothing|anything|everything|something|anybody|where) else\b|\bbut for\b|\bbeside\b`),
	regexp.MustCompile(`(?i)\b(?:anew|in vain|of which|as far as)\b`),
	regexp.MustCompile(`(?i)\b(?:there|it|that|which|where) is none\b|\bis none\b`),
	regexp.MustCompile(`(?i)\b(?:born|births?|newborns?)\b`),
	regexp.MustCompile(`(?i)\b(?:lets?|letting) (?:it |them |pods? )?go\b|\b(?:gives?|gave|given|puts?|takes?|took|taken|taking) (?:it |them )?back\b`),
	regexp.MustCompile(`(?i)\b(?:mends?|mended)\b|\bgoes before\b|\bin nobody's way\b`),
}

// TestWords counts markers in the comments and messages of each package, and in each page.
func TestWords(t *testing.T) {
	texts := map[string]*strings.Builder{}
	add := func(to, text string) {
		if texts[to] == nil {
			texts[to] = &strings.Builder{}
		}
		texts[to].WriteString(text + "\n")
	}
	eachFile(t, func(dir string, file *ast.File) {
		for _, group := range file.Comments {
			add(dir, strings.Join(strings.Fields(group.Text()), " "))
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && strings.Count(s.Value, " ") > 3 {
				add(dir, s.Value)
			}
			return true
		})
	})
	for name, text := range pages(t) {
		add(name, text)
	}
	found := map[string]int{}
	for of, text := range texts {
		words, n := len(strings.Fields(text.String())), 0
		for _, m := range markers {
			n += len(m.FindAllStringIndex(text.String(), -1))
		}
		if n > 1 && n*1000 > mostMarkers*max(words, leastWords) {
			found[of] = n
		}
	}
	for _, of := range slices.Sorted(maps.Keys(found)) {
		for line := range strings.Lines(texts[of].String()) {
			for _, m := range markers {
				for _, at := range m.FindAllStringIndex(line, -1) {
					t.Logf("%s: …%s…", of, line[max(0, at[0]-40):min(len(line)-1, at[1]+40)])
				}
			}
		}
	}
	assert.Empty(t, found, "more than %d markers in 1,000 words: write them plainly", mostMarkers)
}

// code is what a page says in the words of a program.
var code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|<!--.*?-->|\\]\\([^)]*\\)")

// pages are the project's texts by their path, without code.
func pages(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "*.md", "charts/attune/values.yaml", "charts/attune/templates/NOTES.txt")
	cmd.Dir = filepath.Join("..", "..")
	names, err := cmd.Output()
	require.NoError(t, err)
	all := map[string]string{}
	for _, name := range strings.Fields(string(names)) {
		switch path.Base(name) {
		case "CHANGELOG.md", "field-reports.md", "CODE_OF_CONDUCT.md":
			continue // history; made from test/field; a standard text
		}
		raw, err := os.ReadFile(filepath.Join("..", "..", name))
		require.NoError(t, err)
		var paragraphs []string
		for paragraph := range strings.SplitSeq(code.ReplaceAllString(string(raw), ""), "\n\n") {
			paragraphs = append(paragraphs, strings.Join(strings.Fields(paragraph), " "))
		}
		all[name] = strings.Join(paragraphs, "\n")
	}
	return all
}
