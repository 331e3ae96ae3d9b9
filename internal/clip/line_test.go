package clip

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLineHasNoControlCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b]0;owned\x07\x1b[2J\u202e evil\u2069": "]0;owned[2J evil",
		" a\r\n\tb\u2028c\u0085d ":                 "a b c d",
		"wörter \U0001F469\u200d\U0001F52C":        "wörter \U0001F469\u200d\U0001F52C",
		"a\xffb\u061c\u200e\u200f":                 "ab",
		"":                                         "",
	} {
		assert.Equal(t, want, Line(text))
	}
}
