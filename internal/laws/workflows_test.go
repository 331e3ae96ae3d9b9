package laws

import (
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

// workflow is what these tests read of a file of .github/workflows.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Timeout     int               `json:"timeout-minutes"`
		RunsOn      string            `json:"runs-on"`
		Strategy    struct {
			Matrix struct {
				Target []string `json:"target"`
			} `json:"matrix"`
		} `json:"strategy"`
		Steps []struct {
			Uses string         `json:"uses"`
			With map[string]any `json:"with"`
			Run  string         `json:"run"`
		} `json:"steps"`
	} `json:"jobs"`
}

// TestWorkflows: each action is pinned by the digest of a commit, with its version beside it. No workflow has more than
// read access to the repository, other rights are those of one job. Each job has a timeout, keeps no token on disk, and calls
// targets of the Makefile that exist.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	targets := makeTargets(t)
	uses := regexp.MustCompile(`uses: *(\S+)(.*)`)
	pinned := regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}$`)
	version := regexp.MustCompile(`^ # v\d+\.\d+\.\d+$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, use := range uses.FindAllStringSubmatch(string(text), -1) {
			assert.Regexp(t, pinned, use[1], file)
			assert.Regexp(t, version, use[2], "%s: %s", file, use[1])
		}
		var flow workflow
		require.NoError(t, yaml.Unmarshal(text, &flow), file)
		assert.Equal(t, map[string]string{"contents": "read"}, flow.Permissions, file)
		for name, job := range flow.Jobs {
			assert.Positive(t, job.Timeout, "%s: %s has no timeout", file, name)
			assert.Regexp(t, `^ubuntu-\d\d\.\d\d$`, job.RunsOn, "%s: %s", file, name)
			for _, step := range job.Steps {
				if strings.HasPrefix(step.Uses, "actions/checkout@") {
					assert.Equal(t, false, step.With["persist-credentials"], "%s: %s", file, name)
				}
				for _, target := range append(called(step.Run), strings.Fields(strings.Join(job.Strategy.Matrix.Target, " "))...) {
					assert.True(t, strings.Contains(target, "=") || targets[target], "%s: %s calls make %s, which there is not", file, name, target)
				}
			}
		}
	}
}

// TestPreReleasesAreNotTheLatestRelease: the last step of the release workflow creates the release on GitHub.
func TestPreReleasesAreNotTheLatestRelease(t *testing.T) {
	text, err := os.ReadFile("../../.github/workflows/release.yml")
	require.NoError(t, err)
	var flow workflow
	require.NoError(t, yaml.Unmarshal(text, &flow))
	steps := flow.Jobs["publish"].Steps
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin/release"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin/release/install.yaml"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gh"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o755))
	for tag, pre := range map[string]bool{"v0.2.0": false, "v0.2.0-rc.1": true} {
		cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", steps[len(steps)-1].Run)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "GITHUB_REF_NAME="+tag)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		assert.Contains(t, string(out), "release create "+tag+" --verify-tag")
		assert.Contains(t, string(out), "bin/release/install.yaml")
		assert.Equal(t, pre, strings.Contains(string(out), "--prerelease"), tag)
	}
}

// TestWorkflowsRunAllTests: what `make test` runs, the workflows of a change run too.
func TestWorkflowsRunAllTests(t *testing.T) {
	var run []string
	for _, file := range []string{"ci.yml", "e2e.yml"} {
		text, err := os.ReadFile(filepath.Join("../../.github/workflows", file))
		require.NoError(t, err)
		var flow workflow
		require.NoError(t, yaml.Unmarshal(text, &flow), file)
		for _, job := range flow.Jobs {
			run = append(run, strings.Fields(strings.Join(job.Strategy.Matrix.Target, " "))...)
		}
	}
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	var tested []string
	for _, part := range regexp.MustCompile(`timed-([a-z0-9-]+)`).FindAllStringSubmatch(string(makefile), -1) {
		tested = append(tested, part[1])
	}
	slices.Sort(tested)
	tested = slices.Compact(tested)
	require.Greater(t, len(tested), 5)
	assert.ElementsMatch(t, tested, run)
}

// TestDependenciesAreUpdated: each go.mod of the repository is in a folder that the updates look at.
func TestDependenciesAreUpdated(t *testing.T) {
	text, err := os.ReadFile("../../.github/dependabot.yml")
	require.NoError(t, err)
	var file struct {
		Updates []struct {
			Ecosystem   string   `json:"package-ecosystem"`
			Directories []string `json:"directories"`
		} `json:"updates"`
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	var watched []string
	for _, update := range file.Updates {
		if update.Ecosystem == "gomod" {
			watched = append(watched, update.Directories...)
		}
	}
	modules, err := exec.Command("git", "-C", "../..", "ls-files", "*go.mod").Output()
	require.NoError(t, err)
	for _, module := range strings.Fields(string(modules)) {
		folder := "/" + strings.TrimPrefix(path.Dir(module), ".")
		assert.True(t, slices.ContainsFunc(watched, func(pattern string) bool {
			matched, err := filepath.Match(pattern, folder)
			return err == nil && matched
		}), "no update of %s looks at %s", ".github/dependabot.yml", folder)
	}
}

// TestDeployedProgramsNameTheirCommit: the Makefile switches off what Go records of the repository.
func TestDeployedProgramsNameTheirCommit(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	calls := regexp.MustCompile(`.*go run \./cmd/deploy .*`).FindAllString(string(makefile), -1)
	require.Len(t, calls, 2, "deploy and image")
	for _, call := range calls {
		assert.Contains(t, call, "LDFLAGS='$(LDFLAGS)'")
	}
}

// makeTargets are the names of the Makefile's targets.
func makeTargets(t *testing.T) map[string]bool {
	t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, target := range regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`).FindAllStringSubmatch(string(makefile), -1) {
		targets[target[1]] = true
	}
	return targets
}

// called are the targets that a step's commands make.
func called(run string) (targets []string) {
	for _, call := range regexp.MustCompile(`\bmake ([a-z][a-z0-9-]*)`).FindAllStringSubmatch(run, -1) {
		targets = append(targets, call[1])
	}
	return targets
}
