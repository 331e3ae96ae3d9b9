package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// TestALogIsNotFlooded: lines that clients can cause leave room for other lines, also of other namespaces, and dropped
// lines are counted.
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
		assert.True(t, c.add(about{message: fmt.Sprint(i)}, 1, time.Now()))
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

// valuer creates its text when the line is written.
type valuer struct{ text string }

func (v valuer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("inner", v.text), slog.Any("error", errors.New(v.text)))
}

// nilError panics when its text is read.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// Texts that a client can cause are cut anywhere in a line. Short texts stay unchanged.
func TestLogLinesAreShort(t *testing.T) {
	long := strings.Repeat("é", 1<<18)
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		for name, write := range map[string]func(logr.Logger){
			"text":             func(l logr.Logger) { l.Info("a", "b", long) },
			"message":          func(l logr.Logger) { l.Info(long) },
			"error":            func(l logr.Logger) { l.Error(errors.New(long), "a") },
			"error as a value": func(l logr.Logger) { l.Info("a", "error", fmt.Errorf("b: %w", errors.New(long))) },
			"values":           func(l logr.Logger) { l.WithValues("requestID", types.UID(long)).Info("a") },
			"name":             func(l logr.Logger) { l.WithName(long).Info("a") },
			"key":              func(l logr.Logger) { l.Info("a", long, "b") },
			"group":            func(l logr.Logger) { l.Info("a", "b", slog.GroupValue(slog.Group("c", slog.String("d", long)))) },
			"value made late":  func(l logr.Logger) { l.Info("a", "b", valuer{long}) },
			"object":           func(l logr.Logger) { l.Info("a", "b", struct{ Text string }{long}) },
			"object's name":    func(l logr.Logger) { l.Info("a", "b", klog.KRef(long, long)) },
			"list":             func(l logr.Logger) { l.Info("a", "b", []string{long, long}) },
			"bytes":            func(l logr.Logger) { l.Info("a", "b", []byte(long)) },
			"not JSON":         func(l logr.Logger) { l.Info("a", "b", func() {}) },
			"nil error":        func(l logr.Logger) { l.Info("a", "b", (*nilError)(nil)) },
		} {
			t.Run(fmt.Sprint(level, name), func(t *testing.T) {
				out := &bytes.Buffer{}
				write(logr.FromSlogHandler(newHandler(out, level)))
				assert.LessOrEqual(t, out.Len(), 3*mostOfAttribute)
				assert.True(t, json.Valid(out.Bytes()), out.String())
			})
		}
	}
	out := &bytes.Buffer{}
	logr.FromSlogHandler(newHandler(out, slog.LevelInfo)).Info("a", "b", struct{ N int }{1}, "c", errors.New("d"), "e", 3)
	assert.Contains(t, out.String(), `"msg":"a","b":{"N":1},"c":"d","e":3}`)
}

// There may be fewer lines of maximum length than short ones, because their bytes are limited too. That includes the
// attributes that the logger adds. Dropped lines are reported.
func TestALogIsNotFloodedWithBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, of := range map[string]func(logr.Logger, string){
			"own": func(l logr.Logger, text string) { l.Info("Cannot read", "error", text, "uid", text, "name", text) },
			"shared": func(l logr.Logger, text string) {
				l.WithValues("error", text, "uid", text, "name", text).Info("Cannot read")
			},
		} {
			out := &bytes.Buffer{}
			log := logr.FromSlogHandler(newHandler(out, slog.LevelInfo))
			long := strings.Repeat("9", 1<<20)
			for range linesEach {
				of(log, long)
			}
			assert.LessOrEqual(t, out.Len(), bytesEach+4*mostOfAttribute, name)
			lines := strings.Count(out.String(), "Cannot read")
			assert.Greater(t, lines, 10, name)
			time.Sleep(time.Minute)
			log.Info("another")
			assert.Contains(t, out.String(), fmt.Sprintf(`"lines":%d`, linesEach-lines), name)
		}
	})
}
