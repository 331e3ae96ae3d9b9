package laws

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each row of the comparison that says Y has a link, and each link leads to a file and a heading that exist.
func TestComparisonLinksExist(t *testing.T) {
	const folder = "../../docs"
	text, err := os.ReadFile(filepath.Join(folder, "comparison.md"))
	require.NoError(t, err)
	link := regexp.MustCompile(`\]\(([^)#]+)(?:#([^)]+))?\)`)
	rows := 0
	for _, row := range strings.Split(string(text), "\n") {
		links := link.FindAllStringSubmatch(row, -1)
		if regexp.MustCompile(`^\| [0-9]+ \|`).MatchString(row) {
			rows++
			assert.True(t, !strings.Contains(row, "| Y |") || len(links) > 0, row)
		}
		for _, to := range links {
			page, err := os.ReadFile(filepath.Join(folder, to[1]))
			if assert.NoError(t, err, row) && to[2] != "" {
				assert.Contains(t, anchors(string(page)), to[2], row)
			}
		}
	}
	assert.Equal(t, 25, rows)
}

// anchors are the names that GitHub gives the headings of a page.
func anchors(page string) (names []string) {
	for _, line := range strings.Split(page, "\n") {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			name := regexp.MustCompile(`[^\w\s-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			names = append(names, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return names
}
