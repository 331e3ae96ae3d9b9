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

// TestALogIsNotFlooded: what anybody can have written leaves room for the rest, that of other namespaces included, and is
// counted.
func TestALogIsNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &bytes.Buffer{}
		log := logr.FromSlogHandler(newSampled(slog.NewJSONHandler(out, nil)))
		flood := log.WithName("controller").WithValues("namespace", "attacker")
		for i := range 10_000 {
			flood.Info("Reconciler error", "number", i)
		}
		log.Info("Reconciler error", "namespace", "victim")
		log.Info("The leader resized a pod")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, linesEach+2)
		assert.Contains(t, lines[linesEach], "victim")
		assert.Contains(t, lines[linesEach+1], "The leader resized a pod")

		out.Reset()
		time.Sleep(time.Minute)
		log.Info("The leader resized a pod")
		lines = strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 2, "told although the flood is over")
		assert.Contains(t, lines[0], `"of":"Reconciler error","about":"attacker","lines":9900`)
		out.Reset()
		flood.Info("Reconciler error")
		assert.Contains(t, out.String(), "Reconciler error", "another minute")
	})
	c := &counts{of: map[about]*count{}}
	for i := range 2 * mostMessages {
		assert.True(t, c.add(about{message: fmt.Sprint(i)}, time.Now()))
	}
	assert.LessOrEqual(t, len(c.of), mostMessages)
}

func TestLogLevels(t *testing.T) {
	for _, level := range []string{"debug", "info", "error"} {
		_, err := newLogger(level)
		assert.NoError(t, err)
	}
	_, err := newLogger("loud")
	assert.EqualError(t, err, `--log-level "loud" is unknown: use debug, info or error`)
}
