//go:build helm

// Package charts checks what the chart renders, and writes into the docs what it grants and which values it has.
package charts

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write docs/security-model.md, the README and the descriptions of the schema")

const (
	valuesFile = "attune/values.yaml"
	readmeFile = "attune/README.md"
	schemaFile = "attune/values.schema.json"
)

// value is an entry of values.yaml: one that has a default, or a group of others.
type value struct {
	path     []string
	fallback string
	about    string
	group    bool
}

func (v value) name() string { return strings.Join(v.path, ".") }

// valuesOf reads values.yaml. A mapping in one line is a value, not a group: it says {name: "", key: token}.
func valuesOf(t *testing.T) []value {
	t.Helper()
	text, err := os.ReadFile(valuesFile)
	require.NoError(t, err)
	var document yaml.Node
	require.NoError(t, yaml.Unmarshal(text, &document))
	return within(t, nil, document.Content[0])
}

func within(t *testing.T, path []string, mapping *yaml.Node) (found []value) {
	t.Helper()
	for i := 0; i < len(mapping.Content); i += 2 {
		key, node := mapping.Content[i], mapping.Content[i+1]
		v := value{path: append(slices.Clone(path), key.Value), about: prose(key.HeadComment)}
		if v.group = node.Kind == yaml.MappingNode && node.Style != yaml.FlowStyle && !strings.HasSuffix(key.Value, "ecurityContext") && key.Value != "resources"; v.group {
			found = append(append(found, v), within(t, v.path, node)...)
			continue
		}
		v.fallback = shown(t, node)
		found = append(found, v)
	}
	return found
}

// prose is a comment in one line. Only the paragraph right above a key is about it.
func prose(comment string) string {
	paragraphs := strings.Split(comment, "\n\n")
	lines := strings.Split(paragraphs[len(paragraphs)-1], "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(line, "#"))
	}
	return strings.Join(lines, " ")
}

// shown is a default as one writes it in one line.
func shown(t *testing.T, node *yaml.Node) string {
	t.Helper()
	if node.Tag == "!!null" {
		return "not set"
	}
	flow(node)
	text, err := yaml.Marshal(node)
	require.NoError(t, err)
	return "`" + strings.Join(strings.Fields(string(text)), " ") + "`"
}

func flow(node *yaml.Node) {
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	if node.Kind == yaml.MappingNode || node.Kind == yaml.SequenceNode {
		node.Style = yaml.FlowStyle
	}
	for _, child := range node.Content {
		flow(child)
	}
}

// TestReadme: the README has each value with its default and its comment.
func TestReadme(t *testing.T) {
	table := "| value | default | |\n|---|---|---|\n"
	for _, v := range valuesOf(t) {
		about := strings.NewReplacer("|", "\\|", "<", "\\<").Replace(v.about)
		if v.group && about == "" {
			continue
		}
		table += fmt.Sprintf("| `%s` | %s | %s |\n", v.name(), strings.ReplaceAll(v.fallback, "|", "\\|"), about)
	}
	const begin, end = "<!-- values -->\n", "<!-- end of values -->"
	text, err := os.ReadFile(readmeFile)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	told, after, found := strings.Cut(rest, end)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(readmeFile, []byte(before+begin+table+end+after), 0o644))
		told = table
	}
	assert.Equal(t, table, told, "run make values")
}

// TestEveryValueIsDescribed: each value has a comment, the schema has each value with this comment, and no others.
func TestEveryValueIsDescribed(t *testing.T) {
	text, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	all := valuesOf(t)
	known := map[string]bool{"global": true, "enabled": true} // of a parent chart
	for _, v := range all {
		known[v.name()] = true
		if !v.group {
			assert.NotEmpty(t, v.about, "%s has no comment", v.name())
		}
		if described := descend(schema, v.path); assert.NotNil(t, described, "the schema does not have %s", v.name()) && v.about != "" {
			described["description"] = v.about
		}
	}
	for _, name := range properties(schema, nil) {
		assert.True(t, known[name] || slices.ContainsFunc(all, func(v value) bool { return !v.group && strings.HasPrefix(name, v.name()+".") }), "values.yaml does not have %s", name)
	}
	var want bytes.Buffer
	writer := json.NewEncoder(&want)
	writer.SetEscapeHTML(false)
	writer.SetIndent("", "  ")
	require.NoError(t, writer.Encode(schema))
	if *update {
		require.NoError(t, os.WriteFile(schemaFile, want.Bytes(), 0o644))
		return
	}
	assert.Equal(t, want.String(), string(text), "run make values")
}

// TestSectionsSetToNull: users delete a value with null. The chart renders without it, or one sentence names it.
func TestSectionsSetToNull(t *testing.T) {
	text, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	required := func(path []string) bool {
		within := descend(schema, path[:len(path)-1])
		names, _ := within["required"].([]any)
		return slices.Contains(names, any(path[len(path)-1]))
	}
	var optional []string
	missing := map[int][]string{} // by depth: a value can only be missing in a section that is there
	for _, v := range valuesOf(t) {
		depth := len(v.path)
		switch {
		case required(v.path):
			missing[depth] = append(missing[depth], v.name())
		case !slices.ContainsFunc(optional, func(o string) bool { return strings.HasPrefix(v.name(), o+".") }):
			optional = append(optional, v.name())
		}
	}
	null := func(names []string) string { return strings.Join(names, "=null,") + "=null" }
	render(t, null(optional))
	for _, names := range missing {
		_, err := template(t, null(names))
		for _, name := range names {
			last := name[strings.LastIndex(name, ".")+1:]
			assert.ErrorContains(t, err, "'"+last+"'")
		}
		assert.ErrorContains(t, err, "missing propert")
		assert.NotContains(t, fmt.Sprint(err), "executing")
	}
}

// descend returns the schema of a value; nil: it has none.
func descend(schema map[string]any, path []string) map[string]any {
	for _, key := range path {
		properties, _ := schema["properties"].(map[string]any)
		next, ok := properties[key].(map[string]any)
		if !ok {
			return nil
		}
		schema = next
	}
	return schema
}

func properties(schema map[string]any, path []string) (names []string) {
	of, _ := schema["properties"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(of)) {
		inner := append(slices.Clone(path), key)
		names = append(append(names, strings.Join(inner, ".")), properties(of[key].(map[string]any), inner)...)
	}
	return names
}

// TestPlatformsInTheDocs: each values block of docs/install is a case of attune/ci, which test/install sends to an API server.
func TestPlatformsInTheDocs(t *testing.T) {
	pages, err := filepath.Glob("../docs/install/*.md")
	require.NoError(t, err)
	var shown []string
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
			values, _, closed := strings.Cut(block, "```\n")
			require.True(t, closed, page)
			shown = append(shown, values)
		}
	}
	cases, err := filepath.Glob("attune/ci/*-values.yaml")
	require.NoError(t, err)
	var want []string
	for _, file := range cases {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if name := filepath.Base(file); name != "default-values.yaml" && name != "minimal-values.yaml" && name != "all-values.yaml" {
			want = append(want, string(text))
		}
	}
	assert.NotEmpty(t, want)
	assert.ElementsMatch(t, want, shown)
}
