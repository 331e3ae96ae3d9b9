package terminal

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestControlCharactersAreEscaped(t *testing.T) {
	for in, want := range map[string]string{
		"KIND\tNAME\n":                "KIND\tNAME\n",
		"größer ≥ 1\n":                "größer ≥ 1\n",
		"a\x1b[2Jb":                   `a\x1b[2Jb`,
		"all is well\r":               `all is well\r`,
		"a\u009b2Jb":                  `a\u009b2Jb`,
		"a\x7f\x08":                   `a\u007f\b`,
		"\u202eevil":                  `\u202eevil`,
		"a\u200fb\u200ec\u061c":       `a\u200fb\u200ec\u061c`,
		"a\u2028problem  b\u2029":     `a\u2028problem  b\u2029`,
		"not UTF-8: \xff, \x1b]0;x\a": `not UTF-8: \ufffd, \x1b]0;x\a`,
	} {
		var out bytes.Buffer
		n, err := Escaping{&out}.Write([]byte(in))
		require.NoError(t, err)
		assert.Equal(t, len(in), n)
		if in[0] == 'n' {
			want = "not UTF-8: \ufffd, " + `\x1b]0;x\a`
		}
		assert.Equal(t, want, out.String())
	}
}

// Escaped JSON decodes to the same value.
func TestEscapedJSONIsJSON(t *testing.T) {
	text := ""
	for r := rune(1); r < 0x2100; r++ {
		text += string(r)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(Escaping{&out})
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(text))
	var got string
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	assert.Equal(t, text, got)
	assert.NotContains(t, out.String(), "\x7f")
}
