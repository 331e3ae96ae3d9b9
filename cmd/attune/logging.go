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

// levelOf returns the level for --log-level. debug is -4, which includes V(1) to V(4) of logr.
func levelOf(name string) (slog.Level, error) {
	levels := map[string]slog.Level{"debug": -4, "info": 0, "error": 8}
	level, ok := levels[name]
	if !ok {
		return 0, fmt.Errorf("--log-level %q is unknown: use debug, info or error", name)
	}
	return level, nil
}

// newLogger returns a logger that writes JSON lines to stderr and cuts each text to mostOfAttribute bytes. Except at
// level debug, it limits the number of lines (see sampled).
func newLogger(name string) (logr.Logger, error) {
	level, err := levelOf(name)
	if err != nil {
		return logr.Logger{}, err
	}
	logger := logr.FromSlogHandler(newHandler(os.Stderr, level))
	klog.SetLogger(logger) // client-go logs through klog, whose own lines have no limits
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

// mostOfAttribute is the maximum length of a line's message and of each attribute, in bytes.
const mostOfAttribute = 1 << 10

// shorten cuts the text of an attribute or message, because errors of decoders and servers quote input that they
// could not parse. A JSONHandler calls it with each resolved value, also in groups.
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

// sizeOf estimates the bytes of an attribute in a line.
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
	// linesEach and bytesEach limit the output per minute for one message about one namespace. A client that makes the
	// operator log must not cause the rotation of all other lines.
	linesEach = 100
	bytesEach = 128 << 10
	// mostOfKey is how many bytes of a message and of a namespace are compared.
	mostOfKey = 256
	// mostMessages limits the number of counted pairs of message and namespace.
	mostMessages = 10_000
)

// sampled writes at most linesEach lines and bytesEach bytes per minute for one message about one namespace. Then it
// reports how many lines it dropped. Derived loggers share its counts.
type sampled struct {
	// Handler writes the lines that are not dropped.
	slog.Handler
	// counts are shared with the loggers that are derived from this one.
	counts *counts
	// namespace is the namespace of all lines of this logger; empty if each line may have its own.
	namespace string
	// size is the size in bytes of the attributes that all lines of this logger have.
	size int
}

// about is the key by which lines are counted.
type about struct{ message, namespace string }

// counts has at most mostMessages entries. mutex guards all fields.
type counts struct {
	mutex sync.Mutex
	// of has the lines of the current minute by key.
	of map[about]*count
	// swept is the time of the last sweep.
	swept time.Time
}

// count has the lines of one key since began.
type count struct {
	// began is the time of the first line of the minute.
	began time.Time
	// lines and bytes count the written lines, leftOut the dropped ones.
	lines, bytes, leftOut int
}

// newSampled limits the lines that are written to a handler.
func newSampled(h slog.Handler) *sampled {
	return &sampled{Handler: h, counts: &counts{of: map[about]*count{}}}
}

// Handle implements slog.Handler. It first reports the dropped lines of minutes that have ended, then writes the
// line unless it exceeds the limits. The line's own namespace takes precedence over the logger's.
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
		told := slog.NewRecord(r.Time, slog.LevelInfo, "Dropped log lines: too many of one message", 0)
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

// add counts a line and reports whether to write it. With mostMessages keys it clears all counts: that bounds the
// memory, at the price of some extra lines.
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
	// sweep reports the dropped line after the minute has ended.
	if of.lines == linesEach || of.bytes > 0 && of.bytes+size > bytesEach {
		of.leftOut++
		return false
	}
	of.lines++
	of.bytes += size
	return true
}

// sweep removes the minutes that have ended, at most once a second, and returns how many lines were dropped in them.
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
