package clip

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestShort(t *testing.T) {
	assert.Equal(t, []string{"serve", "--port=80"}, ShortTexts([]string{"serve", "--port=80"}), "as it is")
	assert.Nil(t, ShortTexts(nil))
	long := strings.Repeat("x", 1<<20)
	short := ShortTexts([]string{"-c", long})
	assert.Len(t, short, 1)
	assert.Len(t, short[0], len("sha256:")+64)
	assert.Equal(t, short, ShortTexts(short), "once is enough")
	for name, other := range map[string][]string{
		"another text":       {"-c", long + "y"},
		"the same in one":    {"-c" + long},
		"in another order":   {long, "-c"},
		"with an empty text": {"-c", long, ""},
	} {
		assert.NotEqual(t, short, ShortTexts(other), name)
	}
	assert.Equal(t, "web:1", ShortText("web:1"))
	assert.Less(t, len(ShortText(long)), 100)
}
