package server

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"testing"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/internal/ports"
)

// TestLargeReviewsReturnNoGarbage: the room counts memory as free only after the garbage of a large review was
// collected. A small review causes no collection.
func TestLargeReviewsReturnNoGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for name, size := range map[string]int{"small": 64 << 10, "large": 2 << 20} {
		t.Run(name, func(t *testing.T) {
			var garbage, read weak.Pointer[byte]
			b := &bounded{room: newRoom(budget), metrics: NewMetrics(prometheus.NewRegistry()), next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := ports.Body(w, r, maxBody)
				assert.NoError(t, err)
				assert.Len(t, body, size)
				garbage, read = weak.Make(&make([]byte, size)[0]), weak.Make(&body[0])
			})}
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(make([]byte, size)))
			b.ServeHTTP(httptest.NewRecorder(), r)
			require.EqualValues(t, budget, b.room.free)
			assert.Equal(t, name == "large", garbage.Value() == nil, "what the handler allocated")
			assert.Equal(t, name == "large", read.Value() == nil, "the body")
		})
	}
}
