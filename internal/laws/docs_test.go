package laws

import (
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
	"sigs.k8s.io/yaml"
)

const root = "../.."

// markdown returns the text of each page of the project by its path, without files that Git ignores.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-co", "--exclude-standard", "*.md")
	cmd.Dir = root
	names, err := cmd.Output()
	require.NoError(t, err)
	all := map[string]string{}
	for _, name := range strings.Fields(string(names)) {
		body, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		}
		require.NoError(t, err)
		all[name] = string(body)
	}
	require.Greater(t, len(all), 40)
	return all
}

var (
	fences = regexp.MustCompile("(?ms)^ *```.*?\\n *```$")
	spans  = regexp.MustCompile("`[^`\n]*`")
	links  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// TestLinksOfPages: a relative link leads to a file of the project, and its anchor to a heading of that file.
func TestLinksOfPages(t *testing.T) {
	pages, checked := markdown(t), 0
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		prose := spans.ReplaceAllString(fences.ReplaceAllString(pages[name], ""), "")
		for _, link := range links.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(link[1], "://") || strings.HasPrefix(link[1], "mailto:") {
				continue
			}
			checked++
			target, anchor, _ := strings.Cut(link[1], "#")
			if target == "" {
				target = path.Base(name)
			}
			target = path.Join(path.Dir(name), target)
			_, err := os.Stat(filepath.Join(root, target))
			if assert.NoError(t, err, "%s links to %s", name, link[1]) && anchor != "" {
				assert.Contains(t, anchors(pages[target]), anchor, "%s links to %s", name, link[1])
			}
		}
	}
	assert.Greater(t, checked, 200)
}

// targets are `make` targets in a text: in code, after "make ".
var targets = regexp.MustCompile("(?:^|[`\\n$;&|] *)make ([a-z][a-z0-9-]*)")

// TestMakeTargetsOfPages: a page names only targets that the Makefile has.
func TestMakeTargetsOfPages(t *testing.T) {
	known, seen := makeTargets(t), 0
	for name, text := range markdown(t) {
		if name == "CHANGELOG.md" {
			continue // its entries are of their time
		}
		for _, target := range targets.FindAllStringSubmatch(text, -1) {
			seen++
			assert.True(t, known[target[1]], "%s: make %s", name, target[1])
		}
	}
	assert.Greater(t, seen, 30)
}

// set is a value in a command of Helm.
var set = regexp.MustCompile(`--set(?:-string|-json|-file)?[ =]'?"?([A-Za-z][A-Za-z0-9.\\/-]*)(?:\[\d+\])?=`)

// TestValuesOfPages: a command of Helm sets only values that the chart has.
func TestValuesOfPages(t *testing.T) {
	body, err := os.ReadFile(filepath.Join(root, "charts/attune/values.yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(body, &values))
	seen := 0
	for name, text := range markdown(t) {
		if name == "CHANGELOG.md" {
			continue
		}
		for _, match := range set.FindAllStringSubmatch(text, -1) {
			seen++
			assert.True(t, hasValue(values, strings.Split(match[1], ".")), "%s: --set %s", name, match[1])
		}
	}
	assert.Greater(t, seen, 5)
}

// hasValue reports whether values have a path. A map that is empty in values.yaml takes any key.
func hasValue(values any, path []string) bool {
	of, is := values.(map[string]any)
	if len(path) == 0 || is && len(of) == 0 {
		return true
	}
	next, has := of[path[0]]
	return has && hasValue(next, path[1:])
}
