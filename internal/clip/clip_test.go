package clip

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCut(t *testing.T) {
	assert.Equal(t, "short", Text("short", 5))
	assert.Equal(t, "long", Text("longer", 4))
	assert.Equal(t, "é", Text("éé", 3), "half a character is left out")
	assert.Equal(t, "ab", Text("a\xffb", 10), "bytes that are no UTF-8 are left out")
	assert.Equal(t, "short", Marked("short", 5))
	assert.Equal(t, "long…", Marked("longer", 4))
}

func TestDigest(t *testing.T) {
	assert.Equal(t, Digest(map[string]int{"a": 1, "b": 2}, 6), Digest(map[string]int{"b": 2, "a": 1}, 6))
	assert.NotEqual(t, Digest("a", 6), Digest("b", 6))
	assert.Len(t, Digest("a", 12), 24)
	assert.Panics(t, func() { Digest(func() {}, 6) })
}
