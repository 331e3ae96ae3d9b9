package embedded

import (
	"context"
	"log/slog"
)

// warnings returns a logger for Prometheus's own packages that drops everything below warnings. They log much at
// lower levels.
func warnings(log *slog.Logger) *slog.Logger { return slog.New(quiet{log.Handler()}) }

// quiet drops records below warnings.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }
