package connect

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// forwarder is an API server without websockets. It forwards ports of the pod attune-system/leader to a server over
// SPDY, and reports errors on the error stream.
func forwarder(t *testing.T, to string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/attune-system/pods/leader/portforward" || r.Method != http.MethodPost {
			http.Error(w, "no such pod", http.StatusNotFound)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 2)
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		defer func() { _ = connection.Close() }()
		failed, data := <-streams, <-streams
		assert.Equal(t, "8082", data.Headers().Get(corev1.PortHeader))
		pod, err := net.Dial("tcp", to)
		if err != nil {
			_, _ = io.WriteString(failed, "error forwarding port 8082 to pod: connection refused")
			_ = failed.Close()
			_ = data.Close()
			<-connection.CloseChan()
			return
		}
		_ = failed.Close()
		go func() { _, _ = io.Copy(pod, data) }()
		_, _ = io.Copy(data, pod)
		_ = data.Close()
		<-connection.CloseChan()
	}))
	t.Cleanup(server.Close)
	return server
}

// Fetch reaches a pod through the API server, on the port where the pod listens.
func TestFetch(t *testing.T) {
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("From", "pod")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, r.URL.Path+strings.Repeat(" and more", 10_000))
	}))
	defer pod.Close()
	config := &rest.Config{Host: forwarder(t, pod.Listener.Addr().String()).URL}
	answer, err := Fetch(t.Context(), config, "attune-system", "leader", 8082, "/nodes/worker")
	require.NoError(t, err)
	assert.Equal(t, http.StatusTeapot, answer.Status)
	assert.Equal(t, "pod", answer.Header.Get("From"))
	assert.Equal(t, "/nodes/worker"+strings.Repeat(" and more", 10_000), string(answer.Body))

	_, err = Fetch(t.Context(), config, "attune-system", "other", 8082, "/nodes/worker")
	assert.ErrorContains(t, err, "no such pod")
}

// If no process listens, as in an earlier version of the operator, the error has the node's message.
func TestFetchThatDoesNotListen(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().(*net.TCPAddr)
	require.NoError(t, free.Close())
	config := &rest.Config{Host: forwarder(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(address.Port))).URL}
	_, err = Fetch(t.Context(), config, "attune-system", "leader", 8082, "/nodes/worker")
	assert.EqualError(t, err, "error forwarding port 8082 to pod: connection refused")
}

// Fetch does not wait for a server that never answers.
func TestFetchEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err := Fetch(ctx, &rest.Config{Host: silent.URL}, "attune-system", "leader", 8082, "/")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// Fetch does not wait for a pod that stops in the middle of its response.
func TestFetchThatStops(t *testing.T) {
	release := make(chan struct{})
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "some")
		_ = http.NewResponseController(w).Flush()
		<-release
	}))
	defer pod.Close()
	defer close(release)
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	_, err := Fetch(ctx, &rest.Config{Host: forwarder(t, pod.Listener.Addr().String()).URL}, "attune-system", "leader", 8082, "/")
	assert.Error(t, err)
}
