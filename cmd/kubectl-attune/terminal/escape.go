// Package terminal writes for people at terminals: without control characters that others wrote into objects (escape.go),
// coloured (colour.go), how far a long run is (progress.go), and an answer again when it has changed (watch.go).
package terminal

import (
	"bytes"
	"io"
	"strconv"
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
