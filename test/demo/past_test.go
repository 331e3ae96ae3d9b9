package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThePastEndsNow(t *testing.T) {
	for _, s := range history(now) {
		got := measured(s, now)
		require.NotEmpty(t, got.CPU)
		assert.Len(t, got.Memory, len(got.CPU))
		assert.Equal(t, s.From.UnixMilli(), got.CPU[0].At)
		last := got.CPU[len(got.CPU)-1].Time()
		if s.To.IsZero() {
			assert.Equal(t, now, last)
		} else {
			assert.False(t, last.After(s.To))
		}
	}
}

func TestThePastIsTheOperators(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "usage")
	values, err := writePast(t.Context(), dir, history(now)[:1], now)
	require.NoError(t, err)
	assert.Contains(t, values, "usage.embedded.volume.hostPath.path="+dir)
	packs, err := filepath.Glob(dir + "/*.samples")
	require.NoError(t, err)
	require.NotEmpty(t, packs)
	for _, path := range append(packs, dir) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o006), info.Mode().Perm()&0o006, "%s is anybody's", path)
	}
}
