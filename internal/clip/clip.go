// Package clip shortens texts and values of users: a text to a number of bytes, a value or a long command line to its
// digest.
package clip

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
)

// Text returns at most that many bytes of a text as valid UTF-8, without a partial character at the end. A cut text is
// a copy, so that the original can be freed.
func Text(text string, most int) string {
	if len(text) > most {
		text = strings.Clone(text[:most])
	}
	return strings.ToValidUTF8(text, "")
}

// Marked is Text plus … if the text was cut.
func Marked(text string, most int) string {
	if len(text) <= most {
		return Text(text, most)
	}
	return Text(text, most) + "…"
}

// Line returns a text of another program as one line of valid UTF-8: white space becomes single spaces. It drops control
// characters, which move a terminal's cursor, and characters that reverse the direction of text, which hide words.
func Line(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsSpace(r) && unicode.In(r, unicode.Cc, unicode.Bidi_Control) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return strings.Join(strings.Fields(text), " ")
}

// Digest returns the first bytes of the SHA-256 of a value's JSON, in hexadecimal.
func Digest(value any, bytes int) string {
	sum := sha256.Sum256(JSON(value))
	return hex.EncodeToString(sum[:bytes])
}

// JSON encodes plain data, such as decoded JSON. It panics if JSON cannot encode the value.
func JSON(value any) []byte {
	written, err := json.Marshal(value)
	if err != nil {
		panic("writing plain data as JSON: " + err.Error())
	}
	return written
}

// longestShort is the size in bytes up to which ShortTexts returns texts unchanged.
const longestShort = 512

// ShortTexts returns short texts unchanged and replaces long ones by one digest. Its own results are short. So two
// containers with the same command have equal texts, whether the texts come from the API server or from a cache with
// digests.
func ShortTexts(texts []string) []string {
	size := 0
	for _, text := range texts {
		size += len(text) + 1
	}
	if size <= longestShort {
		return texts
	}
	sum := sha256.New()
	for _, text := range texts {
		// The length prefix prevents two lists of texts from having the same bytes.
		_, _ = sum.Write([]byte(strconv.Itoa(len(text)) + ":" + text)) // writes to a hash do not fail
	}
	return []string{"sha256:" + hex.EncodeToString(sum.Sum(nil))}
}

// ShortText is ShortTexts for one text.
func ShortText(text string) string { return ShortTexts([]string{text})[0] }
