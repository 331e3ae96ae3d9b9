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

// shownBy are documents that name tests.
var shownBy = []string{"docs/security-model.md", "docs/architecture/README.md", "docs/safety.md"}

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

// tables returns the rows of the tables of a page whose header ends with the column tests, by header.
func tables(t *testing.T, page string) map[string][][]string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("../../docs", page))
	require.NoError(t, err)
	found, header := map[string][][]string{}, ""
	for line := range strings.Lines(string(body)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			header = ""
		case header == "":
			header = strings.TrimSpace(line)
		case !strings.HasPrefix(line, "|---") && strings.HasSuffix(header, "| tests |"):
			found[header] = append(found[header], cells)
		}
	}
	return found
}

// TestSafetyRulesNameTests: each rule has a test.
func TestSafetyRulesNameTests(t *testing.T) {
	rules := tables(t, "safety.md")["| rule | tests |"]
	assert.Greater(t, len(rules), 40)
	for _, rule := range rules {
		assert.Regexp(t, named, rule[1], "%q names no test", rule[0])
	}
}

// TestRowsOfTheSecurityModelNameTests: each actor, and each attack or risk, has tests. TestDocumentsNameTestsThatExist
// checks that they exist.
func TestRowsOfTheSecurityModelNameTests(t *testing.T) {
	found := tables(t, "security-model.md")
	for header, least := range map[string]int{
		"| actor | can write | effect in its own namespace | effect elsewhere | tests |": 9,
		"| attack or risk | bound | tests |":                                             30,
		"| risk | bound | tests |":                                                       12,
	} {
		assert.GreaterOrEqual(t, len(found[header]), least, header)
		for _, row := range found[header] {
			assert.Regexp(t, named, row[len(row)-1], "%q names no test", row[0])
			assert.Len(t, row, strings.Count(header, "|")-1, "%q", row[0])
		}
	}
}

// TestBoundariesOfThePicture: each number in the picture of the security model is a row of the table below it.
func TestBoundariesOfThePicture(t *testing.T) {
	section := sectionOf(t, "security-model.md", "Trust boundaries")
	picture, table, found := strings.Cut(section, "\n| ")
	require.True(t, found)
	numbers := regexp.MustCompile(`\((\d)\)`).FindAllStringSubmatch(picture, -1)
	assert.Len(t, numbers, 8)
	for _, number := range numbers {
		assert.Contains(t, table, "\n| "+number[1]+" | ")
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

// sectionOf returns the text of a page below a heading of the second level.
func sectionOf(t *testing.T, page, heading string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("../../docs", page))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(body), "\n## "+heading+"\n")
	require.True(t, found, heading)
	section, _, _ := strings.Cut(rest, "\n## ")
	return section
}

// TestTheWayIn: the architecture page names nine files that exist; the index of the documentation has a glossary.
func TestTheWayIn(t *testing.T) {
	rows := func(page, heading string) (firsts []string) {
		for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(sectionOf(t, page, heading), -1)[1:] {
			firsts = append(firsts, strings.Trim(row[1], "`"))
		}
		return firsts
	}
	files := rows("architecture/README.md", "Nine files")
	for _, name := range files {
		assert.FileExists(t, filepath.Join("../..", name))
	}
	assert.Len(t, files, 9)
	assert.NotEmpty(t, rows("README.md", "Glossary"))
}

// TestWhereToAdd: the files and folders that a change needs exist.
func TestWhereToAdd(t *testing.T) {
	paths := regexp.MustCompile("`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+)`").FindAllStringSubmatch(sectionOf(t, "architecture/README.md", "Where to add"), -1)
	assert.Greater(t, len(paths), 80)
	for _, path := range paths {
		_, err := os.Stat(filepath.Join("../..", path[1]))
		assert.NoError(t, err, "docs/architecture/README.md names a file that does not exist")
	}
}

// TestTheIndexHasEachPage: docs/README.md links to every page of docs, and only to files that exist.
func TestTheIndexHasEachPage(t *testing.T) {
	const docs = "../../docs"
	body, err := os.ReadFile(filepath.Join(docs, "README.md"))
	require.NoError(t, err)
	linked := map[string]bool{"README.md": true}
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(string(body), -1) {
		assert.FileExists(t, filepath.Join(docs, link[1]))
		linked[link[1]] = true
	}
	require.NoError(t, filepath.WalkDir(docs, func(path string, _ fs.DirEntry, err error) error {
		if page, is := strings.CutPrefix(filepath.ToSlash(path), docs+"/"); is && strings.HasSuffix(page, ".md") {
			assert.True(t, linked[page], "docs/README.md does not link to docs/%s", page)
		}
		return err
	}))
}

// TestTheMap: the architecture page has a row for every package, with a file that exists.
func TestTheMap(t *testing.T) {
	section := sectionOf(t, "architecture/README.md", "Packages")
	for _, p := range packages(t) {
		if dir, ours := strings.CutPrefix(p.ImportPath, module); ours {
			assert.Contains(t, section, "`"+dir+"`", "%s is not on the map", dir)
		}
	}
	first := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| `([^`]+)` \\|$").FindAllStringSubmatch(section, -1)
	assert.Greater(t, len(first), 50)
	for _, row := range first {
		assert.FileExists(t, filepath.Join("../..", row[1], row[2]))
	}
}
