package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQuantile(t *testing.T) {
	var took []time.Duration
	for i := 100; i > 0; i-- {
		took = append(took, time.Duration(i)*time.Millisecond)
	}
	assert.Equal(t, 50*time.Millisecond, quantile(took, 0.5))
	assert.Equal(t, 99*time.Millisecond, quantile(took, 0.99))
	assert.Equal(t, 7*time.Millisecond, quantile([]time.Duration{7 * time.Millisecond}, 0.99))
	assert.Zero(t, quantile(nil, 0.5))
}

// A group has the files that a kubelet writes, in both versions.
func TestFilesOfAGroup(t *testing.T) {
	for version, want := range map[int]map[int]map[string]string{
		1: {0: {"cpu.shares": "102", "cpu.cfs_quota_us": "-1"}, 300: {"cpu.shares": "102", "cpu.cfs_quota_us": "30000"}},
		2: {0: {"cpu.weight": "4", "cpu.max": "max"}, 300: {"cpu.weight": "4", "cpu.max": "30000"}},
	} {
		for limit, files := range want {
			dir := t.TempDir()
			for name := range files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "cpu.stat"), []byte("nr_periods 40\nnr_throttled 10\nthrottled_time 5\n"), 0o600))
			g := group{dir: dir, version: version}
			require.NoError(t, g.limit(limit))
			for name, text := range files {
				has, err := os.ReadFile(filepath.Join(dir, name))
				require.NoError(t, err)
				assert.Equal(t, text, string(has), name)
			}
			all, throttled, err := g.periods()
			require.NoError(t, err)
			assert.Equal(t, []int{40, 10}, []int{all, throttled})
		}
	}
}
