package terminal

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestColours(t *testing.T) {
	for in, want := range map[string]string{
		"problem  webhook  it does not answer\n": "\x1b[31mproblem\x1b[0m  webhook  it does not answer\n",
		"warning  policies\nok       usage\n":    "\x1b[33mwarning\x1b[0m  policies\nok       usage\n",
		"a problem  is in the middle\n":          "a problem  is in the middle\n",
		"problem one space\n":                    "problem one space\n",
		"not whole":                              "not whole",
	} {
		for step := 1; step < 5; step++ {
			var out bytes.Buffer
			c := &Coloured{Writer: &out}
			for i := 0; i < len(in); i += step {
				n, err := c.Write([]byte(in[i:min(len(in), i+step)]))
				require.NoError(t, err)
				require.Equal(t, min(len(in), i+step)-i, n)
			}
			require.NoError(t, c.Close())
			assert.Equal(t, want, out.String())
		}
	}
}

// TestNobodySmugglesColours: texts of other users are escaped before colours are added.
func TestNobodySmugglesColours(t *testing.T) {
	var out bytes.Buffer
	c := &Coloured{Writer: &out}
	_, err := Escaping{Writer: c}.Write([]byte("problem  \x1b[2Jx\n"))
	require.NoError(t, err)
	assert.Equal(t, "\x1b[31mproblem\x1b[0m  \\x1b[2Jx\n", out.String())
}

func TestWhoWantsColours(t *testing.T) {
	env := func(pairs map[string]string) func(string) string {
		return func(name string) string { return pairs[name] }
	}
	assert.True(t, WantsColour(env(map[string]string{"TERM": "xterm"})))
	assert.False(t, WantsColour(env(map[string]string{"TERM": "xterm", "NO_COLOR": "1"})))
	assert.False(t, WantsColour(env(map[string]string{"TERM": "dumb"})))
}
