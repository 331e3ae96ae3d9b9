package server

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const patience = time.Minute

func TestAReviewIsAnswered(t *testing.T) {
	s := start(t, echo, Clients{})
	status, answer, err := s.post(t, client(), `{"a": 1}`)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, `HTTP/1.1 {"a": 1}`, answer, "one request a connection, whatever the client would like")
}

var (
	blank      = strings.Repeat(" ", maxBody)
	blankBytes = []byte(blank) // written without a copy
)

// stall sends a body except its last byte; nil: the server closed the connection meanwhile.
func stall(address string, size int) net.Conn {
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return nil
	}
	_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
	// A write fails after the server closed the connection, as it must.
	_, _ = c.Write(blankBytes[:size-1])
	return c
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestStalledBodies: a client that sends all except the last byte, as often as possible, takes a limited part of the
// memory for a limited time, and blocks no other client.
func TestStalledBodies(t *testing.T) {
	const connections = 200
	// Long enough that a busy machine, on which both sides run, does not count as a stall.
	s := start(t, echo, Clients{}, func(s *Server) { s.readTimeout = 5 * time.Second })
	honest := client()
	before := liveHeap()
	var stalled [connections]net.Conn
	var all sync.WaitGroup
	const attackers = 4
	for attacker := range attackers {
		all.Go(func() {
			for i := attacker; i < connections; i += attackers {
				stalled[i] = stall(s.address, maxBody)
			}
		})
	}
	attacked := make(chan struct{})
	go func() { all.Wait(); close(attacked) }()
	answered := 0
	for under := true; under; {
		select {
		case <-attacked:
			under = false
		default:
		}
		status, answer, err := s.post(t, honest, `{"honest": true}`)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, answer)
		answered++
		// Garbage since the start of the collection counts too.
		require.Less(t, liveHeap()-before, int64(256<<20), "after %d answers", answered)
	}
	// In addition to the reviews, each connection has its buffers, on both sides.
	const buffers = connections * 128 << 10
	held := liveHeap() - before
	t.Logf("%d answers meanwhile; the heap grew by %d MiB", answered, held>>20)
	assert.Less(t, held, int64(budget+buffers))
	assert.Positive(t, s.dropped(t, "Busy"), "there is no room for all of them at once")
	for _, c := range stalled {
		if c == nil {
			continue
		}
		_, err := io.Copy(io.Discard, c) // until the server closes the connection
		assert.NotErrorIs(t, err, os.ErrDeadlineExceeded)
		_ = c.Close()
	}
	require.Eventually(t, func() bool { return s.connections.Open() == 1 }, patience, 10*time.Millisecond, "the honest one alone is left")
	status, _, err := s.post(t, honest, `{}`)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
}

// TestSlowBody: a body that does not arrive in time ends the request.
func TestSlowBody(t *testing.T) {
	s := start(t, echo, Clients{})
	c := stall(s.address, 1000)
	require.NotNil(t, c)
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Contains(t, string(answer), "408 Request Timeout")
	assert.EqualValues(t, 1, s.dropped(t, "Slow"))
}

// TestSilentConnections: silent connections are closed for active ones.
func TestSilentConnections(t *testing.T) {
	const most = 20
	s := start(t, echo, Clients{}, func(s *Server) { s.connections.Most = most })
	for range 10 * most {
		c, err := net.Dial("tcp", s.address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
	status, _, err := s.post(t, client(), `{}`)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
	assert.LessOrEqual(t, s.connections.Open(), most)
	require.Eventually(t, func() bool { return s.connections.Open() <= 1 }, patience, 10*time.Millisecond, "who never says anything is not kept")
}

func TestLargeBody(t *testing.T) {
	s := start(t, echo, Clients{})
	for name, body := range map[string]string{
		"bytes":   blank + " ",
		"objects": `{"request":{"object":{"spec":{"containers":[` + strings.Repeat("{},", 1<<20) + `{}]}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			before := s.dropped(t, "TooLarge")
			status, _, err := s.post(t, client(), body)
			if err == nil { // the client may still be writing when the server closes the connection
				assert.Equal(t, http.StatusRequestEntityTooLarge, status)
			}
			assert.Equal(t, before+1, s.dropped(t, "TooLarge"))
		})
	}
	status, _, err := s.post(t, client(), blank)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
}

// TestBusy: a review that is being answered is never dropped; reviews that arrive while it takes all the room are
// rejected at once.
func TestBusy(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			close(began)
			<-end
		}
	}), Clients{}, func(s *Server) { s.options.Bytes = 900 << 10 })
	long := make(chan int, 1)
	go func() {
		response, err := client().Post("https://"+s.address+"/long", "", strings.NewReader(blank[:30<<10]))
		if assert.NoError(t, err) {
			long <- response.StatusCode
			_ = response.Body.Close()
		}
	}()
	select {
	case <-began:
	case status := <-long:
		require.Fail(t, "the long request did not reach its handler", "status %d", status)
	}
	status, _, err := s.post(t, client(), blank[:36<<10])
	require.NoError(t, err)
	assert.Equal(t, http.StatusServiceUnavailable, status)
	status, _, err = s.post(t, client(), `{}`)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status, "there is room for a small one")
	close(end)
	assert.Equal(t, http.StatusOK, <-long)
	require.Eventually(t, func() bool {
		status, _, err = s.post(t, client(), blank[:30<<10])
		return err == nil && status == http.StatusOK
	}, patience, 10*time.Millisecond, "the room is given back")
}

func TestClients(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	for name, c := range map[string]struct {
		names    []string
		presents []tls.Certificate
		answered bool
	}{
		"none":                  {nil, nil, false},
		"ours":                  {nil, []tls.Certificate{ours.issue(t, "kube-apiserver")}, true},
		"another authority's":   {nil, []tls.Certificate{others.issue(t, "kube-apiserver")}, false},
		"of a name":             {[]string{"kube-apiserver"}, []tls.Certificate{ours.issue(t, "kube-apiserver")}, true},
		"of another name":       {[]string{"kube-apiserver"}, []tls.Certificate{ours.issue(t, "system:node:a")}, false},
		"none where names are":  {[]string{"kube-apiserver"}, nil, false},
		"one of several names":  {[]string{"a", "kube-apiserver"}, []tls.Certificate{ours.issue(t, "a")}, true},
		"a name of other CA's":  {[]string{"kube-apiserver"}, []tls.Certificate{others.issue(t, "kube-apiserver")}, false},
		"without a name at all": {[]string{"kube-apiserver"}, []tls.Certificate{ours.issue(t, "")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, echo, Clients{CAFile: ours.file(t), Names: c.names})
			status, _, err := s.post(t, client(c.presents...), `{}`)
			if !c.answered {
				assert.Error(t, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, http.StatusOK, status)
		})
	}
}

// TestClientAuthorityIsExchanged replaces the file while the server runs.
func TestClientAuthorityIsExchanged(t *testing.T) {
	old, renewed := newAuthority(t), newAuthority(t)
	file := old.file(t)
	s := start(t, echo, Clients{CAFile: file})
	_, _, err := s.post(t, client(renewed.issue(t, "a")), `{}`)
	require.Error(t, err)
	content, err := os.ReadFile(renewed.file(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, content, 0o600))
	status, _, err := s.post(t, client(renewed.issue(t, "a")), `{}`)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
	_, _, err = s.post(t, client(old.issue(t, "a")), `{}`)
	assert.Error(t, err)
}

func TestInvalidClientAuthority(t *testing.T) {
	file := t.TempDir() + "/ca.crt"
	assert.ErrorContains(t, Clients{CAFile: file}.ask(&tls.Config{}), "--webhook-client-ca-file: open")
	require.NoError(t, os.WriteFile(file, []byte("none"), 0o600))
	assert.ErrorContains(t, Clients{CAFile: file}.ask(&tls.Config{}), "has no certificate: use a file of PEM certificates")
}
