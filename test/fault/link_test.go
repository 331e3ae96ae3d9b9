package fault

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCallOf(t *testing.T) {
	for address, want := range map[string]string{
		"GET /api/v1/pods":                          "list pods ",
		"GET /api/v1/pods?watch=1":                  "watch pods ",
		"GET /api/v1/namespaces":                    "list namespaces ",
		"GET /api/v1/namespaces/a":                  "get namespaces a",
		"GET /api/v1/namespaces/a/pods/b":           "get pods b",
		"PATCH /api/v1/namespaces/a/pods/b/resize":  "patch pods/resize b",
		"POST /api/v1/namespaces/a/pods/b/eviction": "create pods/eviction b",
		"PUT /apis/attune.io/v1alpha1/namespaces/a/attunerecommendations/b/status": "update attunerecommendations/status b",
		"POST /apis/attune.io/v1alpha1/namespaces/a/attunerecommendations":         "create attunerecommendations new",
		"GET /version":   "get /version ",
		"GET /apis/apps": "get /apis/apps ",
	} {
		method, path, _ := strings.Cut(address, " ")
		r := httptest.NewRequest(method, path, nil)
		assert.Equal(t, want, CallOf(r, []byte(`{"metadata":{"name":"new"}}`)).String(), address)
	}
}

// server counts what reaches it, by path.
func server(t *testing.T) (*Link, map[string]int, func(method, path string) (int, error)) {
	t.Helper()
	got := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		got[r.Method+" "+r.URL.Path+" "+string(body)]++
	}))
	t.Cleanup(s.Close)
	link := NewLink(http.DefaultTransport)
	return link, got, func(method, path string) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader("hello"))
		require.NoError(t, err)
		answer, err := link.RoundTrip(r)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
}

const pod = "/api/v1/namespaces/a/pods/b"

func TestLinkStrikesOnceAtItsPoint(t *testing.T) {
	link, got, ask := server(t)
	link.Strike(Point{Kind: "update pods", N: 2}, 1, Instead(http.StatusConflict, -1))
	for _, want := range []int{200, 409, 200} {
		code, err := ask(http.MethodPut, pod)
		require.NoError(t, err)
		assert.Equal(t, want, code)
	}
	_, err := ask(http.MethodPatch, pod)
	require.NoError(t, err)
	assert.Equal(t, 2, got["PUT "+pod+" hello"])
	assert.Equal(t, 1, link.Struck())
	calls := link.Calls()
	require.Len(t, calls, 4)
	assert.Equal(t, []bool{true, false, true, true}, []bool{calls[0].Landed, calls[1].Landed, calls[2].Landed, calls[3].Landed})
	assert.Equal(t, "hello", string(calls[0].Body))
}

func TestLinkFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault  func(*Link) Fault
		landed int
		code   int
		err    error
	}{
		"before":   {func(l *Link) Fault { return Before(l.Sever) }, 0, 0, ErrCut},
		"after":    {func(l *Link) Fault { return After(l.Sever) }, 1, 0, ErrCut},
		"unsent":   {func(*Link) Fault { return Unsent }, 0, 0, ErrCut},
		"lost":     {func(*Link) Fault { return Lost }, 1, 0, ErrCut},
		"instead":  {func(*Link) Fault { return Instead(429, 0) }, 0, 429, nil},
		"although": {func(*Link) Fault { return Although(500) }, 1, 500, nil},
		"slow":     {func(*Link) Fault { return Slow(func() {}) }, 1, 200, nil},
		"late":     {func(l *Link) Fault { return l.Late() }, 0, 0, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			link, got, ask := server(t)
			link.Strike(Point{Kind: "patch pods", N: 1}, 1, c.fault(link))
			assert.Zero(t, link.Struck())
			code, err := ask(http.MethodPatch, pod)
			assert.ErrorIs(t, err, c.err)
			assert.Equal(t, c.code, code)
			assert.Equal(t, c.landed, got["PATCH "+pod+" hello"])
			assert.Equal(t, 1, link.Struck())
			dies := name == "before" || name == "after"
			assert.Equal(t, dies, link.Severed())
			_, err = ask(http.MethodGet, pod)
			assert.Equal(t, dies, err != nil, "nothing of the dead reaches anybody")
			link.Repair()
			_, err = ask(http.MethodGet, pod)
			require.NoError(t, err)
			assert.Equal(t, name == "late", link.Deliver())
			if name == "late" {
				assert.Equal(t, 1, got["PATCH "+pod+" hello"])
			}
		})
	}
}
