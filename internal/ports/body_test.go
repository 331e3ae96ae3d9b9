package ports

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The request does not keep a body that a handler has taken, so the handler decides how long it stays in memory.
func TestBodyTakesAWholeBodyOver(t *testing.T) {
	whole := Whole{Buffer: bytes.NewBufferString("{}")}
	r := httptest.NewRequest(http.MethodPost, "/", whole)
	r.Body = whole
	body, err := Body(httptest.NewRecorder(), r, 1)
	assert.NoError(t, err)
	assert.Equal(t, "{}", string(body))
	assert.Zero(t, whole.Cap())
}
