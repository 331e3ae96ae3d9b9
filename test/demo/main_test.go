package main

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNobodyReads: the demo ends where nobody reads what it says, and goes on where a connection was closed.
func TestNobodyReads(t *testing.T) {
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	defer signal.Stop(pipes)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	defer writer.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	to := read{writer, cancel}
	_, err = to.Write([]byte("seen"))
	require.NoError(t, err)
	require.NoError(t, ctx.Err())
	require.NoError(t, reader.Close())
	_, err = to.Write([]byte("not seen"))
	require.ErrorIs(t, err, syscall.EPIPE)
	assert.ErrorIs(t, context.Cause(ctx), syscall.EPIPE)
}

// TestClosedConnections: a connection that its other end has closed raises SIGPIPE, and does not end the demo.
func TestClosedConnections(t *testing.T) {
	if os.Getenv("ATTUNE_CLOSED") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "TestClosedConnections")
		cmd.Env = append(os.Environ(), "ATTUNE_CLOSED=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	ctx, stop := interrupted()
	defer stop(nil)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGPIPE))
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGUSR1)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1))
	<-again // signals come one after the other
	require.NoError(t, ctx.Err())
}
