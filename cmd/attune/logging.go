package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"attune.io/attune/internal/clip"
)

// levelOf returns the level of a --log-level. debug is -4, which includes V(1) to V(4) of logr.
func levelOf(name string) (slog.Level, error) {
	levels := map[string]slog.Level{"debug": -4, "info": 0, "error": 8}
	level, ok := levels[name]
	if !ok {
		return 0, fmt.Errorf("--log-level %q is unknown: use debug, info or error", name)
	}
	return level, nil
}

// newLogger makes a logger that writes JSON lines to stderr, each text in them cut to mostOfAttribute bytes. At all levels
// but debug, lines are limited (see sampled).
func newLogger(name string) (logr.Logger, error) {
	level, err := levelOf(name)
	if err != nil {
		return logr.Logger{}, err
	}
	logger := logr.FromSlogHandler(newHandler(os.Stderr, level))
	klog.SetLogger(logger) // of client-go, whose own lines have no bounds
	return logger, nil
}

// newHandler returns the handler of newLogger.
func newHandler(out io.Writer, level slog.Level) slog.Handler {
	lines := slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: shorten})
	if level == slog.LevelDebug {
		return lines
	}
	return newSampled(lines)
}

// mostOfAttribute is how many bytes a line has of its message and of each attribute.
const mostOfAttribute = 1 << 10

// shorten cuts the text that is written of an attribute or message: errors of decoders and servers quote what they could
// not read. A JSONHandler calls it with the resolved value of each, those in groups included.
func shorten(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(clip.Marked(a.Value.String(), mostOfAttribute))
	case slog.KindAny:
		value := a.Value.Any()
		_, marshals := value.(json.Marshaler)
		if err, is := value.(error); is && !marshals {
			a.Value = slog.StringValue(clip.Marked(fmt.Sprint(err), mostOfAttribute))
		} else if text, err := json.Marshal(value); err != nil {
			a.Value = slog.StringValue(clip.Marked(fmt.Sprint("!ERROR:", err), mostOfAttribute))
		} else if len(text) > mostOfAttribute {
			a.Value = slog.StringValue(clip.Marked(string(text), mostOfAttribute))
		}
	}
	a.Key = clip.Marked(a.Key, mostOfAttribute)
	return a
}

// sizeOf estimates what a line has of an attribute, in bytes.
func sizeOf(a slog.Attr) int {
	const number = 24
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		size := len(a.Key)
		for _, of := range value.Group() {
			size += sizeOf(of)
		}
		return size
	}
	a = shorten(nil, slog.Attr{Key: a.Key, Value: value})
	switch a.Value.Kind() {
	case slog.KindString:
		return len(a.Key) + len(a.Value.String())
	case slog.KindAny:
		return len(a.Key) + mostOfAttribute
	}
	return len(a.Key) + number
}

const (
	// linesEach, of bytesEach together, are written each minute of one message about one namespace: what a client can have
	// the operator write must not rotate the other lines away.
	linesEach = 100
	bytesEach = 128 << 10
	// mostOfKey is how many bytes of a message and of a namespace tell lines apart.
	mostOfKey = 256
	// mostMessages are counted, each for itself and its namespace.
	mostMessages = 10_000
)

// sampled writes at most linesEach lines and bytesEach a minute of one message about one namespace, and then how many lines
// it left out. Loggers that are derived from one share its counts.
type sampled struct {
	// Handler writes the lines that are not left out.
	slog.Handler
	// counts are shared with the loggers that are derived from this one.
	counts *counts
	// namespace that all lines of this logger are about; empty: none, or each says its own.
	namespace string
	// size is that of the attributes that all lines of this logger have, in bytes.
	size int
}

// about is the key by which lines are counted.
type about struct{ message, namespace string }

// counts has at most mostMessages entries. mutex guards all fields.
type counts struct {
	mutex sync.Mutex
	// of holds the lines of the running minute of each key.
	of map[about]*count
	// swept is when sweep last looked at all keys.
	swept time.Time
}

// count holds the lines of one key since began, and how many were left out.
type count struct {
	// began is the time of the first line of the minute.
	began time.Time
	// lines were written, of so many bytes; leftOut were not.
	lines, bytes, leftOut int
}

// newSampled limits what is written to a handler.
func newSampled(h slog.Handler) *sampled {
	return &sampled{Handler: h, counts: &counts{of: map[about]*count{}}}
}

// Handle implements slog.Handler. It first writes what was left out in minutes that are over, then the line
// itself, if it is not one too many. A namespace among the line's own attributes wins over that of the logger.
func (s *sampled) Handle(ctx context.Context, r slog.Record) error {
	of, size := about{clip.Marked(r.Message, mostOfKey), s.namespace}, s.size+min(len(r.Message), mostOfAttribute)
	r.Attrs(func(a slog.Attr) bool {
		size += sizeOf(a)
		if a.Key == "namespace" {
			of.namespace = clip.Marked(a.Value.String(), mostOfKey)
		}
		return true
	})
	for left, n := range s.counts.sweep(r.Time) {
		told := slog.NewRecord(r.Time, slog.LevelInfo, "Lines were left out: there were too many of one message", 0)
		told.AddAttrs(slog.String("of", left.message), slog.String("about", left.namespace), slog.Int("lines", n))
		if err := s.Handler.Handle(ctx, told); err != nil {
			return err
		}
	}
	if !s.counts.add(of, size, r.Time) {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler. The new logger shares the counts of this one.
func (s *sampled) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := &sampled{s.Handler.WithAttrs(attrs), s.counts, s.namespace, s.size}
	for _, a := range attrs {
		with.size += sizeOf(a)
		if a.Key == "namespace" {
			with.namespace = clip.Marked(a.Value.String(), mostOfKey)
		}
	}
	return with
}

// WithGroup implements slog.Handler.
func (s *sampled) WithGroup(name string) slog.Handler {
	return &sampled{s.Handler.WithGroup(name), s.counts, s.namespace, s.size}
}

// add counts a line of so many bytes and returns whether it is written. Where there are mostMessages keys, all counts are cleared:
// memory is bounded, at the price of some lines more.
func (c *counts) add(what about, size int, now time.Time) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	of := c.of[what]
	if of == nil {
		if len(c.of) == mostMessages {
			clear(c.of)
		}
		of = &count{began: now}
		c.of[what] = of
	}
	// The line is counted, and reported by sweep once the minute is over.
	if of.lines == linesEach || of.bytes > 0 && of.bytes+size > bytesEach {
		of.leftOut++
		return false
	}
	of.lines++
	of.bytes += size
	return true
}

// sweep ends the minutes that are over, at most once a second, and returns how many lines were left out in them.
func (c *counts) sweep(now time.Time) (left map[about]int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if now.Sub(c.swept).Abs() < time.Second {
		return nil
	}
	c.swept = now
	for what, of := range c.of {
		if now.Sub(of.began).Abs() < time.Minute {
			continue
		}
		if of.leftOut > 0 {
			if left == nil {
				left = map[about]int{}
			}
			left[what] = of.leftOut
		}
		delete(c.of, what)
	}
	return left
}
