package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// newLogger writes JSON lines to stderr.
func newLogger(level string) (logr.Logger, error) {
	levels := map[string]slog.Level{"debug": -4, "info": 0, "error": 8}
	at, ok := levels[level]
	if !ok {
		return logr.Logger{}, fmt.Errorf("--log-level %q is unknown: use debug, info or error", level)
	}
	var handler slog.Handler = slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: at})
	if level != "debug" {
		handler = &sampled{Handler: handler, counts: &counts{of: map[string]*count{}}}
	}
	return logr.FromSlogHandler(handler), nil
}

const (
	// linesEach minute are written of one message: whoever can have the operator write lines is not to rotate the others
	// away.
	linesEach = 100
	// mostMessages are counted, each for itself; messages are sentences of the program's own.
	mostMessages = 1000
)

// sampled writes so many lines of one message a minute, and the first of the next minute says how many were left out.
type sampled struct {
	slog.Handler
	counts *counts
}

type counts struct {
	mutex sync.Mutex
	of    map[string]*count
}

// count of the lines of one message since the minute began.
type count struct {
	began          time.Time
	lines, leftOut int
}

func (s *sampled) Handle(ctx context.Context, r slog.Record) error {
	leftOut, write := s.counts.add(r.Message, r.Time)
	if !write {
		return nil
	}
	if leftOut > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("leftOut", leftOut))
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs and WithGroup have the same counts.
func (s *sampled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sampled{s.Handler.WithAttrs(attrs), s.counts}
}

func (s *sampled) WithGroup(name string) slog.Handler {
	return &sampled{s.Handler.WithGroup(name), s.counts}
}

// add a line; leftOut is how many were, in the minute before.
func (c *counts) add(message string, now time.Time) (leftOut int, write bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	of := c.of[message]
	if of == nil {
		if len(c.of) == mostMessages {
			clear(c.of)
		}
		of = &count{began: now}
		c.of[message] = of
	}
	if now.Sub(of.began).Abs() >= time.Minute {
		leftOut = of.leftOut
		*of = count{began: now}
	}
	if of.lines == linesEach {
		of.leftOut++
		return 0, false
	}
	of.lines++
	return leftOut, true
}
