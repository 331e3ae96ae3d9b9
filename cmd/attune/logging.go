package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
)

// newLogger writes JSON lines to stderr.
func newLogger(level string) (logr.Logger, error) {
	levels := map[string]slog.Level{"debug": -4, "info": 0, "error": 8}
	at, ok := levels[level]
	if !ok {
		return logr.Logger{}, fmt.Errorf("--log-level %q is unknown: use debug, info or error", level)
	}
	return logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: at})), nil
}
