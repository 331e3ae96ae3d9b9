package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNodeFile(t *testing.T) {
	for name, args := range map[string][]string{
		"node.json":         {"testdata/demands.yaml", "-o", "json"},
		"node.yaml":         {"testdata/demands.yaml", "-o", "yaml"},
		"node.txt":          {"testdata/demands.yaml"},
		"node-wide.txt":     {"testdata/demands.yaml", "-o", "wide"},
		"node-evicts.json":  {"testdata/demands-short.yaml", "-o", "json"},
		"node-evicts.txt":   {"testdata/demands-short.yaml", "-o", "wide"},
		"node-too-many.txt": {"testdata/demands-too-many.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			got := cliTest{t: t}.run(append([]string{"node", "--file"}, args...)...)
			require.Equal(t, exitOK, got.code, got.errOut)
			assert.Empty(t, got.errOut)
			golden(t, name, got.out)
		})
	}
}

// The shape of the answer is a contract: no field is missing, and there are no others.
func TestNodeShape(t *testing.T) {
	got := cliTest{t: t}.run("node", "--file", "testdata/demands-short.yaml", "-o", "json")
	require.Equal(t, exitOK, got.code, got.errOut)
	var answer map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(got.out), &answer))
	keys := func(object map[string]json.RawMessage) (all []string) {
		for key := range object {
			all = append(all, key)
		}
		return all
	}
	assert.ElementsMatch(t, []string{"pods", "evictions", "overcommitted"}, keys(answer))
	list := func(text json.RawMessage) (objects []map[string]json.RawMessage) {
		require.NoError(t, json.Unmarshal(text, &objects))
		require.NotEmpty(t, objects)
		return objects
	}
	assert.ElementsMatch(t, []string{"name", "reason"}, keys(list(answer["evictions"])[0]))
	pod := list(answer["pods"])[0]
	assert.ElementsMatch(t, []string{"name", "containers"}, keys(pod))
	assert.ElementsMatch(t, []string{"name", "cpuRequest", "memoryRequest", "memoryLimit"}, keys(list(pod["containers"])[0]))
}

func TestNodeOfNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "demands.yaml")
	require.NoError(t, os.WriteFile(path, []byte("allocatable: {cpu: 4, memory: 8Gi}\npods: []\n"), 0o600))
	got := cliTest{t: t}.run("node", "--file", path, "-o", "json")
	require.Equal(t, exitOK, got.code, got.errOut)
	assert.JSONEq(t, `{"pods": [], "evictions": [], "overcommitted": false}`, got.out)
}

func TestNodeMistakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "demands.yaml")
	require.NoError(t, os.WriteFile(path, []byte("pods: [{name: a, daemonset: true}]\n"), 0o600))
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"node"}, "no node specified: use NAME or --file demands.yaml"},
		{[]string{"node", "worker", "--file", path}, "a node name cannot be combined with --file: specify one of them"},
		{[]string{"node", "worker"}, "no cluster to talk to"},
		{[]string{"node", "--file", "no/such.yaml"}, "reading the demands: open no/such.yaml: no such file or directory"},
		{[]string{"node", "--file", path}, path + ": unknown field pods[0].daemonset: pods[0] has the fields containers, daemonSet, evictionRanking, group, initRequest, name"},
	} {
		got := cliTest{t: t}.run(tc.args...)
		assert.Equal(t, exitError, got.code)
		assert.Equal(t, "error: "+tc.want+"\n", got.errOut)
		assert.Empty(t, got.out)
	}
}
