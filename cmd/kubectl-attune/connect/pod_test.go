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

// forwarder is an API server that forwards ports of the pod attune-system/leader over SPDY to a server, as those do that
// know no websockets. What went wrong it says on the error stream.
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

// A pod is asked through the API server, on the port that it listens at.
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

// Nobody listens, as in a version of the operator that does not answer: what the node says of it is the error.
func TestFetchThatDoesNotListen(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().(*net.TCPAddr)
	require.NoError(t, free.Close())
	config := &rest.Config{Host: forwarder(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(address.Port))).URL}
	_, err = Fetch(t.Context(), config, "attune-system", "leader", 8082, "/nodes/worker")
	assert.EqualError(t, err, "error forwarding port 8082 to pod: connection refused")
}

// A server that never answers is not waited for.
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

// Neither is a pod that stops in the middle of its answer.
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
