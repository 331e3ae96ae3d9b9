package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestALogIsNotFlooded: what anybody can have written leaves room for the rest, and is counted.
func TestALogIsNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &bytes.Buffer{}
		log := logr.FromSlogHandler(&sampled{slog.NewJSONHandler(out, nil), &counts{of: map[string]*count{}}})
		flood := log.WithName("admission").WithValues("from", "somebody")
		for i := range 10_000 {
			flood.Info("Cannot read a review", "number", i)
		}
		log.Info("The leader resized a pod")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, linesEach+1)
		assert.Contains(t, lines[linesEach], "The leader resized a pod")

		out.Reset()
		time.Sleep(time.Minute)
		flood.Info("Cannot read a review")
		flood.Info("Cannot read a review")
		lines = strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 2)
		assert.Contains(t, lines[0], `"leftOut":9900`)
		assert.Contains(t, lines[0], `"from":"somebody"`)
		assert.NotContains(t, lines[1], "leftOut")

		c := &counts{of: map[string]*count{}}
		for i := range 10 * mostMessages {
			_, write := c.add(fmt.Sprint(i), time.Now())
			assert.True(t, write)
		}
		assert.LessOrEqual(t, len(c.of), mostMessages)
	})
}

func TestLogLevels(t *testing.T) {
	for _, level := range []string{"debug", "info", "error"} {
		_, err := newLogger(level)
		assert.NoError(t, err)
	}
	_, err := newLogger("loud")
	assert.EqualError(t, err, `--log-level "loud" is unknown: use debug, info or error`)
}
