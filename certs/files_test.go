package certs

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

func write(t *testing.T, folder string, data Data) {
	t.Helper()
	for _, key := range []string{keyKey, certKey} {
		// Rename into place, as the kubelet does for a mounted Secret, so that no half-written file is read.
		whole := filepath.Join(folder, key+".new")
		require.NoError(t, os.WriteFile(whole, data[key], 0o600))
		require.NoError(t, os.Rename(whole, filepath.Join(folder, key)))
	}
}

func TestFiles(t *testing.T) {
	folder, clock := t.TempDir(), clocktesting.NewFakeClock(start)
	_, err := NewFiles(folder, clock)
	require.ErrorContains(t, err, "is cert-manager running")

	first := issue(t, start, Replace, nil)
	write(t, folder, first)
	files, err := NewFiles(folder, clock)
	require.NoError(t, err)
	assert.NoError(t, files.Ready(nil))
	clock.SetTime(start.Add(91 * day))
	assert.ErrorContains(t, files.Ready(nil), "expired")

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- files.Start(ctx) }()
	write(t, folder, issue(t, clock.Now(), RenewLeaf, first))
	require.Eventually(t, func() bool { return files.Ready(nil) == nil }, 30*time.Second, 5*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}
