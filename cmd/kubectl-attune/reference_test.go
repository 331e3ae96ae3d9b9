package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page has each command and each flag of the plugin, with a description.
func TestReferenceOfCommands(t *testing.T) {
	const file, begin = "../../docs/reference/cli.md", "<!-- generated: go test ./cmd/kubectl-attune -run TestReferenceOfCommands -update -->\n"
	root := newRoot(&environment{cluster: newKubeconfig()})
	var page strings.Builder
	page.WriteString("\n## All commands\n")
	writeFlags(t, &page, root.PersistentFlags())
	var write func(of *cobra.Command)
	write = func(of *cobra.Command) {
		if of.Runnable() {
			assert.NotEmpty(t, of.Short, of.CommandPath())
			fmt.Fprintf(&page, "\n## %s\n\n%s.\n\n```text\n%s\n```\n", strings.TrimPrefix(of.CommandPath(), "kubectl attune "), of.Short, of.UseLine())
			writeFlags(t, &page, of.LocalNonPersistentFlags())
		}
		for _, one := range of.Commands() {
			write(one)
		}
	}
	for _, one := range root.Commands() {
		write(one)
	}
	body, err := os.ReadFile(file)
	require.NoError(t, err)
	head, present, found := strings.Cut(string(body), begin)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(head+begin+page.String()), 0o644))
		return
	}
	assert.Equal(t, page.String(), present, "run: go test ./cmd/kubectl-attune -run TestReferenceOfCommands -update")
}

// writeFlags writes a table of the flags that the help shows.
func writeFlags(t *testing.T, page *strings.Builder, flags *pflag.FlagSet) {
	t.Helper()
	begun := false
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Name == "help" {
			return
		}
		if !begun {
			page.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
			begun = true
		}
		name, usage := pflag.UnquoteUsage(flag)
		assert.NotEmpty(t, usage, flag.Name)
		written := strings.TrimSpace("--" + flag.Name + " " + name)
		if flag.Shorthand != "" {
			written = "-" + flag.Shorthand + ", " + written
		}
		value := "–"
		if flag.DefValue != "" && flag.DefValue != "false" && flag.DefValue != "[]" {
			value = "`" + flag.DefValue + "`"
		}
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", written, value, strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;").Replace(usage))
	})
}
