// Package terminal writes to users' terminals. Escaping escapes control characters from objects of the cluster,
// Coloured adds colours, Progress shows the progress of a long run, and Watch repeats an answer when it changes.
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

// Escaping is a writer that escapes control characters, except line breaks and tabs. Other users write the messages of
// objects and the answers of usage sources. Without escaping, such a text could move the cursor or change the title of
// the user's terminal.
type Escaping struct{ io.Writer }

// Write implements io.Writer. It returns the number of bytes of p, not of the escaped text, as io.Writer requires.
func (e Escaping) Write(p []byte) (int, error) {
	// Nearly all texts have nothing to escape, so write them unchanged.
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

// escaped returns a JSON escape sequence for characters that JSON's encoder does not escape, so that JSON stays
// valid.
func escaped(r rune) string {
	if r == 0x7f {
		return `\u007f`
	}
	quoted := strconv.QuoteRuneToASCII(r)
	return quoted[1 : len(quoted)-1]
}

// isControl reports C0 and C1 controls, DEL, the Unicode marks that change the direction of text, and the Unicode line
// and paragraph separators.
func isControl(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, 0x7f <= r && r < 0xa0:
		return true
	}
	return unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// Coloured is a writer that colours the first word of a line if it is in colours and two spaces follow, as in a
// table's first column. It is the writer under Escaping, so texts of other users cannot contain their own colours.
type Coloured struct {
	io.Writer
	// line is an incomplete line that is not written yet.
	line []byte
}

// colours are the escape sequences (ECMA-48, SGR) by word.
var colours = map[string]string{"problem": "\x1b[31m", "warning": "\x1b[33m", "unknown": "\x1b[36m"}

const plain = "\x1b[0m"

// WantsColour reports whether a terminal gets colours. The environment variables NO_COLOR (no-color.org) and TERM=dumb
// disable them.
func WantsColour(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// Write implements io.Writer. It writes complete lines only.
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

// Close writes a last line without a line break.
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

// Progress shows the progress of a long run on a terminal, and erases it at the end.
type Progress struct {
	// terminal is nil if stderr is not a terminal. Nothing is shown then, so that logs of CI jobs stay readable.
	terminal io.Writer
	now      func() time.Time
	began    time.Time
	// shown is the time of the last update; zero if there was no update.
	shown time.Time
}

const (
	// showsEvery is the minimum time between two updates, and before the first one.
	showsEvery = 200 * time.Millisecond
	barWidth   = 24
	mostShown  = 32
)

// NewProgress starts a run. terminal is nil if stderr is not a terminal.
func NewProgress(terminal io.Writer, now func() time.Time) *Progress {
	return &Progress{terminal: terminal, now: now, began: now()}
}

// At shows the current item and the fraction of the work that is done; 0 means not known.
func (p *Progress) At(part float64, what string) {
	now := p.now()
	if p.terminal == nil || now.Sub(p.began) < showsEvery || now.Sub(p.shown) < showsEvery {
		return
	}
	p.shown = now
	fmt.Fprintf(p.terminal, "\r%s\x1b[K", p.line(part, now.Sub(p.began), what))
}

// line returns a text like [######..................]  25 %, 3s, 9s left: shop/Deployment/web/app.
func (p *Progress) line(part float64, took time.Duration, what string) string {
	part = min(max(part, 0), 1)
	full := int(math.Round(part * barWidth))
	left := ""
	if part > 0 {
		left = fmt.Sprintf(", %s left", time.Duration(float64(took)*(1-part)/part).Round(time.Second))
	}
	return fmt.Sprintf("[%s%s] %3.0f %%, %s%s: %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*part, took.Round(time.Second), left, shortened(what))
}

// shortened returns the end of a name, which is more specific than its beginning, without control characters.
func shortened(name string) string {
	var safe bytes.Buffer
	_, _ = Escaping{Writer: &safe}.Write([]byte(strings.Join(strings.Fields(name), " ")))
	runes := []rune(safe.String())
	if len(runes) > mostShown {
		return "…" + string(runes[len(runes)-mostShown+1:])
	}
	return string(runes)
}

// Done erases the progress.
func (p *Progress) Done() {
	if p.terminal != nil && !p.shown.IsZero() {
		fmt.Fprint(p.terminal, "\r\x1b[K")
	}
}

// Watch is one run of a verb with -w. It belongs to one goroutine.
type Watch struct {
	// every is the time between the end of a round and the next.
	every time.Duration
	// last is the JSON of the last answer; nil before the first one.
	last []byte
}

// NewWatch returns a Watch.
func NewWatch(every time.Duration) *Watch { return &Watch{every: every} }

// Changed reports whether the JSON of the answer differs from the last one. Ages are not in the JSON, so they do not
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

// Run repeats the verb until the context ends, then returns nil. An error of the verb ends it, except a finding.
func (w *Watch) Run(ctx context.Context, finding error, verb func() error) error {
	for {
		// After an interrupt, an error is most likely caused by it.
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
