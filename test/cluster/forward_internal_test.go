package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestForward: what asks here is answered from there; a connection that finds nobody is closed, and the next one is taken;
// nothing is left open in the end.
func TestForward(t *testing.T) {
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "page "+r.URL.Path+" of "+r.Host)
	}))
	defer there.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	nobody, ended := true, make(chan error, 1)
	go func() {
		ended <- forward(ctx, listener, func(ctx context.Context) (net.Conn, error) {
			if nobody {
				nobody = false
				return nil, errors.New("nobody listens")
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", there.Listener.Addr().String())
		})
	}()
	address := "http://" + listener.Addr().String()
	alone := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, err = alone.Get(address)
	require.Error(t, err)
	for range 2 {
		answer, err := alone.Get(address + "/ui/")
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, "page /ui/ of "+listener.Addr().String(), string(body))
	}
	idle, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer idle.Close()
	cancel()
	require.NoError(t, <-ended)
	_, err = idle.Read(make([]byte, 1))
	assert.Error(t, err, "it was closed")
}
