package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReferenceOfOperator: the page has every flag of every command of the operator, as --help prints them.
func TestReferenceOfOperator(t *testing.T) {
	const file, begin = "../../docs/reference/operator.md", "<!-- generated: go test ./cmd/attune -run TestReferenceOfOperator -update -->\n"
	var page strings.Builder
	root := command()
	for _, of := range append(root.Commands(), root) {
		if !of.Runnable() {
			continue
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s.\n", of.CommandPath(), strings.TrimSuffix(of.Short, "."))
		flags := of.LocalNonPersistentFlags()
		if of == root {
			page.WriteString("It has the flags of both programs.\n")
			continue
		}
		flags.VisitAll(func(flag *pflag.Flag) { assert.NotEmpty(t, flag.Usage, flag.Name) })
		if flags.HasAvailableFlags() {
			fmt.Fprintf(&page, "\n```text\n%s```\n", flags.FlagUsages())
		}
	}
	body, err := os.ReadFile(file)
	require.NoError(t, err)
	head, present, found := strings.Cut(string(body), begin)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(head+begin+page.String()), 0o644))
		return
	}
	assert.Equal(t, page.String(), present, "run: go test ./cmd/attune -run TestReferenceOfOperator -update")
}
