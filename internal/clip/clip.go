// Package clip shortens what others wrote: a text to some bytes, a value or a long command line to its digest.
package clip

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// Text returns at most so many bytes of a text as valid UTF-8, without half a character at the end. A text that is cut is
// copied, so that the longer one can be freed.
func Text(text string, most int) string {
	if len(text) > most {
		text = strings.Clone(text[:most])
	}
	return strings.ToValidUTF8(text, "")
}

// Marked is Text, with … behind a text that was cut.
func Marked(text string, most int) string {
	if len(text) <= most {
		return Text(text, most)
	}
	return Text(text, most) + "…"
}

// Digest is the first so many bytes of the SHA-256 of a value's JSON, in hexadecimal.
func Digest(value any, bytes int) string {
	sum := sha256.Sum256(JSON(value))
	return hex.EncodeToString(sum[:bytes])
}

// JSON writes plain data, such as what was read as JSON. It panics on a value that JSON cannot write.
func JSON(value any) []byte {
	written, err := json.Marshal(value)
	if err != nil {
		panic("writing plain data as JSON: " + err.Error())
	}
	return written
}
