package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/test/cluster/internal/state"
)

// TestCheckoutsHaveClustersOfTheirOwn: the name follows from the directory, whichever way leads there.
func TestCheckoutsHaveClustersOfTheirOwn(t *testing.T) {
	home := t.TempDir()
	first, second := filepath.Join(home, "first", ".cluster"), filepath.Join(home, "second", ".cluster")
	require.NoError(t, os.MkdirAll(filepath.Dir(first), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(home, "first"), filepath.Join(home, "link")))
	named := func(dir string) string {
		o, err := Options{Dir: dir}.withDefaults()
		require.NoError(t, err)
		return o.Name
	}
	assert.Equal(t, named(first), named(first))
	assert.Equal(t, named(first), named(filepath.Join(home, "link", ".cluster")))
	assert.NotEqual(t, named(first), named(second))
	assert.True(t, strings.HasPrefix(named(first), "local-"))
	o, err := Options{Dir: first, Name: "mine"}.withDefaults()
	require.NoError(t, err)
	assert.Equal(t, "mine", o.Name)
}

// checkout has a directory for its cluster and what that has left: a running cluster holds its lock.
type checkout struct{ dir, state string }

func newCheckout(t *testing.T, name string) checkout {
	t.Helper()
	base, err := baseDir()
	require.NoError(t, err)
	c := checkout{dir: filepath.Join(t.TempDir(), ".cluster"), state: filepath.Join(base, name)}
	require.NoError(t, os.MkdirAll(c.state, 0o755))
	require.NoError(t, os.MkdirAll(c.dir, 0o755))
	require.NoError(t, os.Symlink(c.state, filepath.Join(c.dir, stateLink)))
	facts, err := json.Marshal(Facts{Nodes: 1, PID: os.Getpid(), Dir: c.dir})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(c.state, "cluster.json"), facts, 0o600))
	return c
}

// TestDownDoesNotChangeOtherCheckouts: also what is left of their clusters that died.
func TestDownDoesNotChangeOtherCheckouts(t *testing.T) {
	t.Setenv("ATTUNE_CACHE", t.TempDir())
	own, dead, running := newCheckout(t, "own"), newCheckout(t, "dead"), newCheckout(t, "running")
	lock, err := state.Lock(running.state)
	require.NoError(t, err)
	defer lock.Close()

	require.NoError(t, Down(own.dir))
	assert.NoDirExists(t, own.dir)
	assert.NoDirExists(t, own.state)
	for _, other := range []checkout{dead, running} {
		assert.DirExists(t, other.dir)
		assert.DirExists(t, other.state)
	}
	require.NoError(t, Down(own.dir), "there is nothing any more")
}

// TestACopyOfACheckoutIsNotAttached: its link leads to the cluster of the first one, which goes on. One that was moved is the same.
func TestACopyOfACheckoutIsNotAttached(t *testing.T) {
	t.Setenv("ATTUNE_CACHE", t.TempDir())
	running := newCheckout(t, "running")
	lock, err := state.Lock(running.state)
	require.NoError(t, err)
	defer lock.Close()
	c, err := Attach(running.dir)
	require.NoError(t, err)
	c.netns.Close()

	copied := filepath.Join(t.TempDir(), ".cluster")
	require.NoError(t, os.MkdirAll(copied, 0o755))
	require.NoError(t, os.Symlink(running.state, filepath.Join(copied, stateLink)))
	_, err = Attach(copied)
	require.ErrorIs(t, err, ErrNotRunning)
	require.NoError(t, Down(copied))
	assert.NoDirExists(t, copied)
	assert.True(t, state.Alive(running.state))

	moved := filepath.Join(t.TempDir(), ".cluster")
	require.NoError(t, os.Rename(running.dir, moved))
	c, err = Attach(moved)
	require.NoError(t, err)
	c.netns.Close()
}
