package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The journal has an end, however many objects are written, and keeps the newest.
func TestTheJournalHasAnEnd(t *testing.T) {
	j := newJournal()
	for i := range 5 * mostObjects {
		j.note(Write{At: time.Unix(int64(i), 0), Kind: "Pod", Key: fmt.Sprintf("shop/web-%d", i)})
	}
	for range 5 * kept {
		j.note(Write{Kind: "Pod", Key: "shop/web-last"})
	}
	assert.LessOrEqual(t, len(j.last), mostObjects)
	assert.Len(t, j.order, len(j.last))
	assert.LessOrEqual(t, len(j.last["Pod shop/web-last"]), 2*kept)
	assert.NotEmpty(t, j.Of("Pod", fmt.Sprintf("shop/web-%d", 5*mostObjects-1)))
	assert.Empty(t, j.Of("Pod", "shop/web-0"))
}
