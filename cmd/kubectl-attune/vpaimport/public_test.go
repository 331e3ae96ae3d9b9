package vpaimport_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/cmd/kubectl-attune/vpaimport"
)

var update = flag.Bool("update", false, "write testdata/public/*.imported.yaml")

// Manifests as they are in public repositories (testdata/public/README.md). The files show each policy, and after it
// each sentence about what it does not have.
func TestPublicManifests(t *testing.T) {
	const folder = "testdata/public"
	table, err := os.ReadFile(filepath.Join(folder, "README.md"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasSuffix(name, ".imported.yaml") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			assert.Contains(t, string(table), "| `"+name+"` |", "the table names its source")
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			vpas, notes, err := input.ParseVPAs(text)
			require.NoError(t, err)
			require.NotEmpty(t, vpas)
			var out strings.Builder
			for i := range vpas {
				made, more := vpaimport.Import(&vpas[i])
				out.WriteString("---\n")
				if made != nil {
					policy, err := made.Human(false)
					require.NoError(t, err)
					out.WriteString(policy)
				}
				notes = append(notes, more...)
				for _, note := range notes {
					out.WriteString("# " + note + "\n")
				}
				notes = nil
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".imported.yaml"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(out.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), out.String())
		})
	}
}
