package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// port runs the only server that was added to a manager, and returns its address.
func port(t *testing.T, w *wired) string {
	t.Helper()
	require.Len(t, w.added, 1)
	server := w.added[0].(*manager.Server)
	assert.False(t, server.NeedLeaderElection(), "every replica is probed and scraped")
	ended := make(chan error, 1)
	go func() { ended <- server.Start(t.Context()) }()
	t.Cleanup(func() { assert.NoError(t, <-ended) })
	return server.Listener.Addr().String()
}

func droppedBy() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dropped"}, []string{"port"})
}

// TestProbes: the probes say whether the process is alive or ready, and why it is not.
func TestProbes(t *testing.T) {
	w := &wired{}
	p := &probed{Manager: w, healthy: map[string]healthz.Checker{}, ready: map[string]healthz.Checker{}}
	known := errors.New("nothing was read yet")
	require.NoError(t, p.AddHealthzCheck("ping", healthz.Ping))
	require.NoError(t, p.AddReadyzCheck("known", func(*http.Request) error { return known }))
	require.NoError(t, p.listen("127.0.0.1:0", droppedBy()))
	address := port(t, w)
	says := func(path string) int {
		response, err := http.Get("http://" + address + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	assert.Equal(t, http.StatusOK, says("/healthz"))
	assert.Equal(t, http.StatusOK, says("/healthz/ping"))
	assert.Equal(t, http.StatusInternalServerError, says("/readyz"))
	assert.Equal(t, http.StatusNotFound, says("/metrics"))
	known = nil
	assert.Equal(t, http.StatusOK, says("/readyz"))
}

// TestPortsThatAreSwitchedOff: no port is opened.
func TestPortsThatAreSwitchedOff(t *testing.T) {
	w := &wired{}
	require.NoError(t, addPort(w, "probes", "0", http.NotFoundHandler(), nil, droppedBy()))
	assert.Empty(t, w.added)
}

// TestAPortThatIsTaken is an error at once.
func TestAPortThatIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	assert.ErrorContains(t, addPort(&wired{}, "probes", taken.Addr().String(), http.NotFoundHandler(), nil, droppedBy()), "listening for probes")
}

// TestStrangersAtAPort: a client that opens many connections and never finishes their headers gets few of them, and
// does not block others. Both ports are served like this one.
func TestStrangersAtAPort(t *testing.T) {
	secure, err := ownCertificate()
	require.NoError(t, err)
	for name, config := range map[string]*tls.Config{"metrics": secure, "probes": nil} {
		t.Run(name, func(t *testing.T) {
			dropped, w := droppedBy(), &wired{}
			require.NoError(t, addPort(w, name, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }), config, dropped))
			address, began := port(t, w), time.Now()
			for range 10 * mostCallers {
				conn := dial(t, address, config != nil)
				_, _ = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: attune\r\nA: b\r\n")
			}
			assert.Equal(t, http.StatusOK, request(t, dial(t, address, config != nil), ""))
			// Connections are accepted in order, so all strangers were accepted before. Dropped ones had no time to
			// send a request, unless the machine was so slow that the read timeout passed: that closes connections
			// too.
			if time.Since(began) < callerReads {
				assert.GreaterOrEqual(t, testutil.ToFloat64(dropped.WithLabelValues(name)), float64(9*mostCallers))
			} else {
				assert.Positive(t, testutil.ToFloat64(dropped.WithLabelValues(name)))
			}
		})
	}
}

// TestGreatHeaders are rejected.
func TestGreatHeaders(t *testing.T) {
	w := &wired{}
	require.NoError(t, addPort(w, "probes", "127.0.0.1:0", http.NotFoundHandler(), nil, droppedBy()))
	address := port(t, w)
	assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, request(t, dial(t, address, false), strings.Repeat("A: b\r\n", 4*mostCallersHeader)))
	assert.Equal(t, http.StatusNotFound, request(t, dial(t, address, false), "Authorization: Bearer "+strings.Repeat("x", 4<<10)+"\r\n"), "a token has room")
}

// dial opens a connection for the rest of the test.
func dial(t *testing.T, address string, secure bool) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	if secure {
		return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // as scrapers do
	}
	return conn
}

// request sends a request with additional headers.
func request(t *testing.T, conn net.Conn, headers string) (status int) {
	t.Helper()
	go func() { _, _ = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: attune\r\n"+headers+"\r\n") }()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}
