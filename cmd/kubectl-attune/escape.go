package main

import (
	"bytes"
	"io"
	"strconv"
)

// escaping writes text so that a terminal takes nothing in it for a command: messages of the cluster's objects, and what
// usage sources answer, are written by others. Line breaks and tabs are ours.
type escaping struct{ io.Writer }

// Write implements io.Writer.
func (e escaping) Write(p []byte) (int, error) {
	if !bytes.ContainsFunc(p, isControl) {
		return e.Writer.Write(p)
	}
	safe := make([]byte, 0, len(p)+16)
	for _, r := range string(p) {
		if isControl(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			safe = append(safe, quoted[1:len(quoted)-1]...)
			continue
		}
		safe = append(safe, string(r)...)
	}
	if _, err := e.Writer.Write(safe); err != nil {
		return 0, err
	}
	return len(p), nil
}

// isControl: C0 and C1 controls and DEL, and marks that turn the direction of writing.
func isControl(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, 0x7f <= r && r < 0xa0:
		return true
	}
	return 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069
}
