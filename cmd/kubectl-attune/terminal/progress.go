package terminal

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

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
