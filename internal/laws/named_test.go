package laws

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shownBy are documents whose sentences name the tests that show them.
var shownBy = []string{"docs/security-model.md"}

var (
	named   = regexp.MustCompile("`(Test[A-Za-z0-9_]+)")
	defined = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
)

// TestDocumentsNameTestsThatExist: a sentence that a test shows ends with that test.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	tests := testsOf(t, "../..")
	require.NotEmpty(t, tests)
	for _, document := range shownBy {
		body, err := os.ReadFile(filepath.Join("../..", document))
		require.NoError(t, err)
		names := named.FindAllStringSubmatch(string(body), -1)
		assert.NotEmpty(t, names, "%s names no test", document)
		for _, name := range names {
			assert.True(t, tests[name[1]], "%s names %s, which there is not", document, name[1])
		}
	}
}

// testsOf a folder and those below it, by name.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		body, err := os.ReadFile(path)
		for _, name := range defined.FindAllStringSubmatch(string(body), -1) {
			tests[name[1]] = true
		}
		return err
	}))
	return tests
}

// TestTheWayIn is short: nine files of at most 1,200 lines together, and a glossary of at most 40 words.
func TestTheWayIn(t *testing.T) {
	body, err := os.ReadFile("../../docs/architecture/README.md")
	require.NoError(t, err)
	rows := func(heading string) (firsts []string) {
		_, rest, found := strings.Cut(string(body), "\n## "+heading+"\n")
		require.True(t, found, heading)
		section, _, _ := strings.Cut(rest, "\n## ")
		for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(section, -1)[1:] {
			firsts = append(firsts, strings.Trim(row[1], "`"))
		}
		return firsts
	}
	files, lines := rows("Nine files"), 0
	for _, name := range files {
		source, err := os.ReadFile(filepath.Join("../..", name))
		require.NoError(t, err)
		lines += strings.Count(string(source), "\n")
	}
	assert.Len(t, files, 9)
	assert.LessOrEqual(t, lines, 1200)
	words := rows("Glossary")
	assert.NotEmpty(t, words)
	assert.LessOrEqual(t, len(words), 40)
}
