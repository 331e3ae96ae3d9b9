package connect

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leader responds with the requested path.
func leader(_ context.Context, path string) (Answer, error) {
	header := http.Header{"Content-Type": {"text/html"}, "Content-Security-Policy": {"default-src 'none'"}, "Set-Cookie": {"a=b"}, "Location": {"http://evil.example"}}
	return Answer{Status: http.StatusOK, Header: header, Body: []byte("page " + path)}, nil
}

func ask(handler http.Handler, method, host, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	request := httptest.NewRequest(method, path, nil)
	request.Host = host
	handler.ServeHTTP(w, request)
	return w
}

// Pages are forwarded with their security headers, and no other path of the leader is.
func TestHandler(t *testing.T) {
	h := UIHandler(leader)
	w := ask(h, http.MethodGet, "127.0.0.1:9090", "/ui/ns/shop?page=2")
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, "page /ui/ns/shop?page=2", w.Body.String())
	assert.Contains(t, own, "form-action 'self'", "the search is sent to this side")
	assert.Equal(t, []string{own, "default-src 'none'"}, w.Header().Values("Content-Security-Policy"))
	assert.Equal(t, "text/html", w.Header().Get("Content-Type"))
	assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	assert.Empty(t, w.Header().Get("Set-Cookie"))
	assert.Empty(t, w.Header().Get("Location"))
	for path, want := range map[string]int{"/": http.StatusFound, "/nodes/worker": http.StatusNotFound, "/ui/../nodes/worker": http.StatusTemporaryRedirect, "/metrics": http.StatusNotFound} {
		w = ask(h, http.MethodGet, "localhost", path)
		assert.Equal(t, want, w.Code, path)
		assert.NotContains(t, w.Body.String(), "page /")
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodConnect} {
		assert.NotContains(t, ask(h, method, "localhost", "/ui/").Body.String(), "page /", method)
	}
	assert.Equal(t, http.StatusOK, ask(h, http.MethodHead, "localhost", "/ui/").Code)
}

// Requests with another host name that resolves to this machine are rejected.
func TestHosts(t *testing.T) {
	asked := func(context.Context, string) (Answer, error) {
		t.Error("the leader is asked")
		return Answer{}, nil
	}
	for _, host := range []string{"evil.example", "evil.example:9090", "10.0.0.1", ""} {
		assert.Equal(t, http.StatusForbidden, ask(UIHandler(asked), http.MethodGet, host, "/ui/").Code, host)
	}
}

// A request that a page of another origin causes does not forward a port.
func TestPagesOfOthers(t *testing.T) {
	for site, want := range map[string]int{"cross-site": http.StatusForbidden, "same-site": http.StatusForbidden, "something new": http.StatusForbidden,
		"none": http.StatusOK, "same-origin": http.StatusOK, "": http.StatusOK} {
		request := httptest.NewRequest(http.MethodGet, "/ui/", nil)
		request.Host = "localhost"
		if site != "" {
			request.Header.Set("Sec-Fetch-Site", site)
		}
		w := httptest.NewRecorder()
		UIHandler(func(ctx context.Context, path string) (Answer, error) {
			assert.Equal(t, http.StatusOK, want, "%s: the leader is asked", site)
			return leader(ctx, path)
		}).ServeHTTP(w, request)
		assert.Equal(t, want, w.Code, site)
	}
}

// Few requests wait for a slot. Further ones are rejected at once, and the waiting ones are answered in order.
func TestFewWait(t *testing.T) {
	asked, release := make(chan struct{}, 100), make(chan struct{})
	h := UIHandler(func(ctx context.Context, path string) (Answer, error) {
		asked <- struct{}{}
		<-release
		return leader(ctx, path)
	})
	const many = 40
	codes := make(chan int, many)
	for range many {
		go func() { codes <- ask(h, http.MethodGet, "localhost", "/ui/").Code }()
	}
	for range most {
		<-asked
	}
	for range many - most - mostWaiting {
		select {
		case code := <-codes:
			require.Equal(t, http.StatusTooManyRequests, code)
		case <-time.After(10 * time.Second):
			close(release)
			require.Fail(t, "it waits")
		}
	}
	close(release)
	for range most + mostWaiting {
		assert.Equal(t, http.StatusOK, <-codes)
	}
}

func TestLeaderThatFails(t *testing.T) {
	h := UIHandler(func(context.Context, string) (Answer, error) { return Answer{}, errors.New("it is gone") })
	w := ask(h, http.MethodGet, "localhost", "/ui/")
	assert.Equal(t, http.StatusBadGateway, w.Code)
	assert.Equal(t, "it is gone\n", w.Body.String())
	assert.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
}

// lines is a writer that another goroutine reads.
type lines struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

// ShowUI prints its loopback address, and ends with its context.
func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out lines
	ended := make(chan error, 1)
	go func() { ended <- ShowUI(ctx, UIOptions{Fetch: leader, Out: &out, ErrOut: io.Discard}) }()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "\n") }, 10*time.Second, time.Millisecond)
	address := strings.TrimSpace(out.String())
	assert.Regexp(t, `^http://127\.0\.0\.1:\d+/ui/$`, address)
	response, err := http.Get(address)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, response.Body.Close())
	require.NoError(t, err)
	assert.Equal(t, "page /ui/", string(body))
	stop()
	require.NoError(t, <-ended)
}

// A user that may not see the page gets the reason at once, and no port is opened.
func TestRunThatCannot(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	says := func(status int, body string) func(context.Context, string) (Answer, error) {
		return func(context.Context, string) (Answer, error) {
			return Answer{Status: status, Body: []byte(body)}, nil
		}
	}
	for want, o := range map[string]UIOptions{
		"no right": {Fetch: func(context.Context, string) (Answer, error) { return Answer{}, errors.New("no right") }},
		"the leader has no web page: update the operator":                             {Fetch: says(http.StatusNotFound, "404 page not found")},
		"the leader does not show its page: this replica is not the leader: pod b is": {Fetch: says(http.StatusServiceUnavailable, "this replica is not the leader: pod b is\n")},
		"the leader does not show its page: 500 Internal Server Error":                {Fetch: says(http.StatusInternalServerError, "")},
		"address already in use: choose another port with --port":                     {Fetch: leader, Port: taken.Addr().(*net.TCPAddr).Port},
	} {
		o.Out, o.ErrOut = io.Discard, io.Discard
		assert.ErrorContains(t, ShowUI(t.Context(), o), want)
	}
}
