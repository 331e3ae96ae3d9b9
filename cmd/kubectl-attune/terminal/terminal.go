// Package terminal writes for people at terminals: without control characters that others wrote into objects (Escaping),
// coloured (Coloured), how far a long run is (Progress), and an answer again when it has changed (Watch).
package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Escaping is a writer that escapes control characters, except line breaks and tabs. Messages of objects and
// answers of usage sources are written by others; without it, a message could move the cursor or change the title
// of the user's terminal.
type Escaping struct{ io.Writer }

// Write implements io.Writer.
// It returns the number of bytes of p, not of the escaped text, as io.Writer demands.
func (e Escaping) Write(p []byte) (int, error) {
	// Nearly all texts have nothing to escape and are written as they are.
	if !bytes.ContainsFunc(p, isControl) {
		return e.Writer.Write(p)
	}
	safe := make([]byte, 0, len(p)+16)
	for _, r := range string(p) {
		if isControl(r) {
			safe = append(safe, escaped(r)...)
			continue
		}
		safe = append(safe, string(r)...)
	}
	if _, err := e.Writer.Write(safe); err != nil {
		return 0, err
	}
	return len(p), nil
}

// escaped is as JSON has it where JSON's own encoder leaves the character as it is: JSON stays JSON.
func escaped(r rune) string {
	if r == 0x7f {
		return `\u007f`
	}
	quoted := strconv.QuoteRuneToASCII(r)
	return quoted[1 : len(quoted)-1]
}

// isControl recognises the C0 and C1 controls, DEL, the Unicode marks that change the direction of text, and its separators
// of lines.
func isControl(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, 0x7f <= r && r < 0xa0:
		return true
	}
	return unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// Coloured is a writer that colours the word with which a line begins, where the word is one of colours and a gap of
// two spaces follows, as in a table's first column. It writes to a terminal, below Escaping: what others have written
// has no colours of its own.
type Coloured struct {
	io.Writer
	// line is the beginning of a line whose rest was not written yet.
	line []byte
}

// colours are the escape sequences (ECMA-48, SGR) by word.
var colours = map[string]string{"problem": "\x1b[31m", "warning": "\x1b[33m", "unknown": "\x1b[36m"}

const plain = "\x1b[0m"

// WantsColour reports whether a terminal gets colours, by the environment: NO_COLOR (no-color.org) and TERM=dumb ask for
// none.
func WantsColour(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// Write implements io.Writer. A line is written when it is whole.
func (c *Coloured) Write(p []byte) (int, error) {
	c.line = append(c.line, p...)
	end := bytes.LastIndexByte(c.line, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	var out []byte
	for line := range bytes.Lines(c.line[:end]) {
		out = append(out, colour(line)...)
	}
	c.line = append([]byte(nil), c.line[end:]...)
	if _, err := c.Writer.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes a last line that has no end.
func (c *Coloured) Close() error {
	_, err := c.Writer.Write(colour(c.line))
	c.line = nil
	return err
}

func colour(line []byte) []byte {
	word, _, found := bytes.Cut(line, []byte("  "))
	start, known := colours[string(bytes.TrimRight(word, " "))]
	if !found || !known {
		return line
	}
	return append([]byte(start+string(word)+plain), line[len(word):]...)
}

// Progress shows on a terminal how far a long run is. It keeps nothing of what it showed.
type Progress struct {
	// terminal is nil where stderr is none: then nothing is shown, so that logs of CI jobs stay readable.
	terminal io.Writer
	now      func() time.Time
	began    time.Time
	// shown is when it was shown last; zero: never.
	shown time.Time
}

const (
	// showsEvery is the least time between two updates, and how long a run is that shows nothing.
	showsEvery = 200 * time.Millisecond
	barWidth   = 24
	mostShown  = 32
)

// NewProgress begins to show. terminal is nil where there is none.
func NewProgress(terminal io.Writer, now func() time.Time) *Progress {
	return &Progress{terminal: terminal, now: now, began: now()}
}

// At shows what is under way, and which part of all is done; 0: not known.
func (p *Progress) At(part float64, what string) {
	now := p.now()
	if p.terminal == nil || now.Sub(p.began) < showsEvery || now.Sub(p.shown) < showsEvery {
		return
	}
	p.shown = now
	fmt.Fprintf(p.terminal, "\r%s\x1b[K", p.line(part, now.Sub(p.began), what))
}

// line is such as [######..................]  25 %, 3s, 9s left: shop/Deployment/web/app.
func (p *Progress) line(part float64, took time.Duration, what string) string {
	part = min(max(part, 0), 1)
	full := int(math.Round(part * barWidth))
	left := ""
	if part > 0 {
		left = fmt.Sprintf(", %s left", time.Duration(float64(took)*(1-part)/part).Round(time.Second))
	}
	return fmt.Sprintf("[%s%s] %3.0f %%, %s%s: %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*part, took.Round(time.Second), left, shortened(what))
}

// shortened is the end of a name, which tells more than its beginning, without anything that a terminal would obey.
func shortened(name string) string {
	var safe bytes.Buffer
	_, _ = Escaping{Writer: &safe}.Write([]byte(strings.Join(strings.Fields(name), " ")))
	runes := []rune(safe.String())
	if len(runes) > mostShown {
		return "…" + string(runes[len(runes)-mostShown+1:])
	}
	return string(runes)
}

// Done takes away what was shown.
func (p *Progress) Done() {
	if p.terminal != nil && !p.shown.IsZero() {
		fmt.Fprint(p.terminal, "\r\x1b[K")
	}
}

// Watch is one run of a verb with -w. It belongs to one goroutine.
type Watch struct {
	// every is the time between the end of a round and the next.
	every time.Duration
	// last is the JSON of the last answer; nil: there was none.
	last []byte
}

// NewWatch makes a watch.
func NewWatch(every time.Duration) *Watch { return &Watch{every: every} }

// Changed reports whether the answer differs from the last one, by its JSON: what only tells how old something is does not
// count. first is true for the first answer.
func (w *Watch) Changed(answer any) (changed, first bool, err error) {
	text, err := json.Marshal(answer)
	if err != nil {
		return false, false, err
	}
	first = w.last == nil
	changed = first || !bytes.Equal(text, w.last)
	w.last = text
	return changed, first, nil
}

// Run repeats the verb until the context ends, which is no error. An error of the verb ends it, but for a finding.
func (w *Watch) Run(ctx context.Context, finding error, verb func() error) error {
	for {
		// After an interrupt an error is most likely one about the interrupt.
		if err := verb(); err != nil && ctx.Err() == nil && !errors.Is(err, finding) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.every):
		}
	}
}
