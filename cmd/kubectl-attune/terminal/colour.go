package terminal

import (
	"bytes"
	"io"
)

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
