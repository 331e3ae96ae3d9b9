package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"attune.io/attune/cmd/kubectl-attune/output"
)

// written matches commands in a text: from "kubectl attune" to the end of the command in a shell, a sentence or a
// line.
var written = regexp.MustCompile(`kubectl attune ([^|>;&()\n` + "`" + `]+)`)

// parses reports whether the plugin accepts a command: its verb, its flags and the number of arguments.
func parses(t *testing.T, args []string) error {
	t.Helper()
	var discarded bytes.Buffer
	root := newRoot(&environment{IOStreams: genericiooptions.IOStreams{In: &discarded, Out: &discarded, ErrOut: &discarded}, cluster: newKubeconfig()})
	command, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	return command.ValidateArgs(command.Flags().Args())
}

// words splits a command as a shell does, without redirections.
func words(command string) (all []string) {
	for _, word := range strings.Fields(strings.ReplaceAll(command, `"`, "")) {
		switch word {
		case "2":
		case "#":
			return all
		default:
			all = append(all, word)
		}
	}
	return all
}

// k9sPlugins is k9s's file format. The test rejects unknown fields, as k9s's schema does.
type k9sPlugins struct {
	Plugins map[string]struct {
		ShortCut    string   `json:"shortCut"`
		Description string   `json:"description"`
		Scopes      []string `json:"scopes"`
		Command     string   `json:"command"`
		Background  bool     `json:"background"`
		Confirm     bool     `json:"confirm"`
		Args        []string `json:"args"`
	} `json:"plugins"`
}

// The plugin accepts the commands of the k9s plugins, in every view that has the key.
func TestK9sPlugins(t *testing.T) {
	text, err := os.ReadFile("../../docs/k9s/plugins.yaml")
	require.NoError(t, err)
	var of k9sPlugins
	require.NoError(t, yaml.UnmarshalStrict(text, &of))
	require.NotEmpty(t, of.Plugins)
	keys, verbs := map[string]bool{}, map[string]bool{}
	for name, plugin := range of.Plugins {
		assert.NotEmpty(t, plugin.Description, name)
		assert.NotEmpty(t, plugin.Scopes, name)
		assert.False(t, keys[plugin.ShortCut], "%s: two plugins have the key %s", name, plugin.ShortCut)
		keys[plugin.ShortCut] = true
		for _, view := range plugin.Scopes {
			fill := strings.NewReplacer("$RESOURCE_NAME", view, "$NAMESPACE", "shop", "$NAME", "web", "$CONTEXT", "here")
			line := fill.Replace(plugin.Command + " " + strings.Join(plugin.Args, " "))
			assert.NotContains(t, line, "$", "%s: k9s has no such variable", name)
			commands := written.FindAllStringSubmatch(line, -1)
			require.Len(t, commands, 1, line)
			args := words(commands[0][1])
			assert.NoError(t, parses(t, args), line)
			verbs[args[0]] = true
			assert.Equal(t, args[0] == "pause", plugin.Confirm, "%s: what writes is confirmed", name)
		}
	}
	for _, verb := range []string{"explain", "status", "history", "pause"} {
		assert.True(t, verbs[verb], verb)
	}
}

// documents are the texts of the project with commands for users.
func documents(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"../../config/krew/attune.yaml", "../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../charts/attune/*.md", "../../charts/attune/templates/NOTES.txt"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		paths = append(paths, found...)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return filepath.Base(path) == "CHANGELOG.md" }) // of its time
}

// spans are commands within a sentence.
var spans = regexp.MustCompile("`(kubectl attune [^`\n]+)`")

// commandsIn returns the commands of the plugin in a text: in blocks without a language or for a shell, one a line, and in
// spans of code.
func commandsIn(text string) (commands []string) {
	var lines []string
	fence, inside := "", false
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			fence, inside = strings.TrimPrefix(line, "```"), !inside
		case inside && slices.Contains([]string{"", "sh", "console"}, fence):
			lines = append(lines, strings.TrimPrefix(line, "$ "))
		case !inside:
			for _, span := range spans.FindAllStringSubmatch(line, -1) {
				lines = append(lines, span[1])
			}
		}
	}
	for _, line := range lines {
		if strings.ContainsAny(line, "[…") {
			continue // a synopsis
		}
		for _, command := range written.FindAllStringSubmatch(line, -1) {
			// A sentence may name a flag without its value. Completion calls a verb that cobra adds.
			if args := words(command[1]); !strings.HasPrefix(args[len(args)-1], "--") && args[0] != "__complete" {
				commands = append(commands, command[1])
			}
		}
	}
	return commands
}

// The plugin accepts every command in the manifest for krew, in the pages, and in its own help.
func TestCommandsThatAreWrittenDown(t *testing.T) {
	commands := map[string][]string{}
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		commands[path] = commandsIn(string(text))
	}
	var collect func(of *cobra.Command)
	collect = func(of *cobra.Command) {
		commands["help of "+of.Name()] = commandsIn("```\n" + of.Example + "\n```")
		for _, one := range of.Commands() {
			collect(one)
		}
	}
	collect(newRoot(&environment{cluster: newKubeconfig()}))
	found := 0
	for where, all := range commands {
		for _, command := range all {
			found++
			assert.NoError(t, parses(t, words(command)), "%s: kubectl attune %s", where, command)
		}
	}
	assert.Greater(t, found, 100)
	assert.Error(t, parses(t, []string{"status", "--colour"}))
	assert.Error(t, parses(t, []string{"stats"}))
}

// The tables of answers fit a terminal of 100 columns, except with -o wide. Sentences next to tables may be longer.
func TestTablesFitATerminal(t *testing.T) {
	cells := regexp.MustCompile(`\S {2,}\S`)
	for _, name := range []string{"backtest", "backtest-sweep", "history-all", "node", "node-decided", "node-live", "node-too-many", "recommendations", "savings", "savings-priced", "status"} {
		text, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		require.NoError(t, err)
		rows := 0
		for line := range strings.Lines(string(text)) {
			if cells.MatchString(line) {
				rows++
				assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), output.MostColumns, "%s: %s", name, line)
			}
		}
		assert.Greater(t, rows, 1, "%s has no table", name)
	}
}
