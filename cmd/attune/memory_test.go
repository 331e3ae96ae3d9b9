package main

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSparing(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) })
	for name, test := range map[string]struct {
		environment map[string]string
		percent     int
		limit       int64
		fails       string
	}{
		"a limit":          {map[string]string{"MEMORY_LIMIT": "1000000000"}, 50, 900_000_000, ""},
		"a quantity":       {map[string]string{"MEMORY_LIMIT": "10Mi"}, 50, 9 << 20, ""},
		"none":             {nil, 50, math.MaxInt64, ""},
		"Go's own":         {map[string]string{"MEMORY_LIMIT": "10Mi", "GOMEMLIMIT": "5MiB", "GOGC": "200"}, 100, math.MaxInt64, ""},
		"no limit at all":  {map[string]string{"MEMORY_LIMIT": "0"}, 50, math.MaxInt64, `MEMORY_LIMIT: "0" is not an amount of memory, such as 512Mi`},
		"nothing sensible": {map[string]string{"MEMORY_LIMIT": "much"}, 50, math.MaxInt64, `MEMORY_LIMIT: "much" is not an amount of memory, such as 512Mi`},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetGCPercent(100)
			debug.SetMemoryLimit(math.MaxInt64)
			for _, variable := range []string{"MEMORY_LIMIT", "GOMEMLIMIT", "GOGC"} {
				t.Setenv(variable, test.environment[variable])
			}
			err := sparing()
			if test.fails == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, test.fails)
			}
			assert.EqualValues(t, test.percent, debug.SetGCPercent(100))
			assert.Equal(t, test.limit, debug.SetMemoryLimit(-1))
		})
	}
}

// TestHistoryBytes: histories do not grow until the container is OOM-killed.
func TestHistoryBytes(t *testing.T) {
	for limit, want := range map[string]int64{"": 0, "much": 0, "512Mi": 512 << 20 / 3, "3Gi": 1 << 30} {
		t.Setenv(memoryVariable, limit)
		assert.Equal(t, want, historyBytes(), limit)
	}
}

func TestReviewsTakeAPartOfTheMemory(t *testing.T) {
	for limit, want := range map[string]int64{"": 64 << 20, "128Mi": 16 << 20, "512Mi": 64 << 20, "4Gi": 64 << 20} {
		t.Setenv("MEMORY_LIMIT", limit)
		assert.Equal(t, want, int64(partOfLimit(8, mostReviewBytes)), limit)
	}
}

// The stores for the web page take little memory if the limit is small.
func TestPagesTakeAPartOfTheMemory(t *testing.T) {
	for limit, want := range map[string]int{"": 16 << 20, "much": 16 << 20, "128Mi": 8 << 20, "4Gi": 16 << 20} {
		t.Setenv("MEMORY_LIMIT", limit)
		assert.Equal(t, want, partOfLimit(16, trailBytes), limit)
	}
}
