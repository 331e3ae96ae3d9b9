package cluster

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestADirectoryThatIsAMountPoint cannot be removed; what is in it can.
func TestADirectoryThatIsAMountPoint(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := filepath.Join(t.TempDir(), "cluster")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "log", "kubelet"), 0o755))
	require.NoError(t, removeDir(dir))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	busy := filepath.Join(dir, "busy")
	require.NoError(t, os.Mkdir(busy, 0o755))
	require.NoError(t, syscall.Mount("tmpfs", busy, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(busy, 0)) })
	require.ErrorIs(t, removeDir(dir), syscall.EBUSY)
}
