package terminal

import (
	"bytes"
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
		"a\x7f\x08":                   `a\x7f\b`,
		"\u202eevil":                  `\u202eevil`,
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
