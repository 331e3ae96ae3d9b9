package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// outputs are commands of a page on files of the project, with their output.
var outputs = regexp.MustCompile("(?s)```console\n\\$ kubectl attune ((?:explain --usage|backtest --trace) docs/[^\n]*)\n(.*?)```")

// Commands of the pages on files of the project print what the pages show. -update writes the output into the pages.
func TestOutputOfPages(t *testing.T) {
	found, pages := 0, documents(t)
	for i := range pages {
		pages[i], _ = filepath.Abs(pages[i])
	}
	t.Chdir(filepath.Join("..", "..")) // output has paths
	for _, path := range pages {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		page := string(text)
		for _, match := range outputs.FindAllStringSubmatch(page, -1) {
			found++
			got := cliTest{t: t}.run(words(match[1])...)
			require.Equal(t, exitOK, got.code, got.errOut)
			if *update {
				page = strings.Replace(page, match[2], got.out, 1)
				continue
			}
			assert.Equal(t, got.out, match[2], "%s: run: go test ./cmd/kubectl-attune -run TestOutputOfPages -update", path)
		}
		if *update && page != string(text) {
			require.NoError(t, os.WriteFile(path, []byte(page), 0o644))
		}
	}
	assert.NotZero(t, found)
}
