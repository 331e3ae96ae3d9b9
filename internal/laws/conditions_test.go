package laws

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestConditionsInTheReference: the page has each reason of a condition and of a blocked target, and no other.
func TestConditionsInTheReference(t *testing.T) {
	known := map[string]bool{}
	for file, pattern := range map[string]string{
		"api/v1alpha1/names.go": `(?m)^\tReason\w+ += "(\w+)"`,
		"recommender/holds.go":  `(?m)^\t\w+ +Reason = "(\w+)"`,
	} {
		body, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		reasons := regexp.MustCompile(pattern).FindAllStringSubmatch(string(body), -1)
		require.Greater(t, len(reasons), 8, file)
		for _, reason := range reasons {
			known[reason[1]] = true
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/conditions.md"))
	require.NoError(t, err)
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = true
	}
	assert.Equal(t, known, documented)
}
