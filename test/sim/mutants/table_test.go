package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEditsFit: each mutant's edits find their texts, wherever the code has moved to. make test-mutants, which plays them, takes
// too long to tell.
func TestEditsFit(t *testing.T) {
	require.NotEmpty(t, mutants)
	os.Getenv("ATTUNE_INPUTS") // the digest of what is read outside of this module, so that Go's test cache sees a change
	for _, m := range mutants {
		assert.NoError(t, m.overlay(t.TempDir(), filepath.Join("..", "..", "..")), m.finding)
	}
}
