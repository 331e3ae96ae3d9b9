package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// screen tells a person what happens. On a terminal, what is being waited for is one line that changes.
type screen struct {
	out io.Writer
	// terminal: a person sits there.
	terminal bool
	scenes   int
	began    time.Time // of the scene
}

// scene begins the next part.
func (s *screen) scene(title string) {
	s.scenes++
	s.began = time.Now()
	fmt.Fprintf(s.out, "\n=== %d. %s\n", s.scenes, title)
}

// say tells something in whole lines.
func (s *screen) say(format string, args ...any) {
	s.block(fmt.Sprintf(format, args...))
}

// block shows text as it came, indented.
func (s *screen) block(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintln(s.out, strings.TrimRight("    "+line, " "))
	}
}

// seen tells what was read from the cluster, and when in the scene.
func (s *screen) seen(format string, args ...any) {
	fmt.Fprintf(s.out, "  ✓ %5.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// detail belongs to what was just seen.
func (s *screen) detail(format string, args ...any) {
	fmt.Fprintf(s.out, "            %s\n", fmt.Sprintf(format, args...))
}

// missed tells what was to be seen and was not.
func (s *screen) missed(err error) {
	fmt.Fprintf(s.out, "  ✗ %5.1fs  %v\n", time.Since(s.began).Seconds(), err)
}

// waiting shows on a terminal how long something takes; the line is taken away by its last call.
func (s *screen) waiting(what string, since time.Time, last bool) {
	const clear = "\r\x1b[K"
	switch {
	case !s.terminal:
	case last:
		fmt.Fprint(s.out, clear)
	default:
		fmt.Fprintf(s.out, "%s  … %5.1fs  %s", clear, time.Since(since).Seconds(), what)
	}
}

// typed shows a command as a person would have typed it.
func (s *screen) typed(command string) { s.say("$ %s", command) }
