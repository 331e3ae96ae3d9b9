package prometheus

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
)

// A server that was never reached did not reject a query as too large, and its error text is the same each time.
func TestFailureOfAServerThatIsNotReached(t *testing.T) {
	c := &Client{shown: "http://prometheus:9090", timeout: time.Minute}
	from := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port} }
	to := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 9090}
	for name, test := range map[string]struct {
		err  func(port int) error
		want string
	}{
		"no answer to dialling": {
			func(int) error { return &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: os.ErrDeadlineExceeded} },
			"cannot be reached (dial tcp 10.0.0.2:9090: i/o timeout): attune retries at the next cycle",
		},
		"no answer of the name server": {
			func(int) error { return &net.DNSError{Err: "i/o timeout", Name: "prometheus", IsTimeout: true} },
			"cannot be reached (lookup prometheus: i/o timeout): attune retries at the next cycle",
		},
		"cut off": {
			func(port int) error {
				return &net.OpError{Op: "read", Net: "tcp", Source: from(port), Addr: to, Err: syscall.ECONNRESET}
			},
			"cannot be reached (read tcp 10.0.0.2:9090: connection reset by peer): attune retries at the next cycle",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, port := range []int{41000, 42000} {
				failure := c.transportFailure(&url.Error{Op: "Post", URL: "http://prometheus:9090/api/v1/query", Err: test.err(port)})
				assert.Contains(t, failure.Error(), test.want)
				assert.False(t, errors.Is(failure, usage.ErrTooMuch))
			}
		})
	}
}

// TestATokenThatIsReplaced: a file's token may change while a client is in use; a rejected one is read again.
func TestATokenThatIsReplaced(t *testing.T) {
	valid := "first"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+valid {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) { require.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600)) }
	client, err := New(Config{Address: server.URL, BearerTokenFile: file})
	require.NoError(t, err)
	ask := func() error {
		now := time.Now()
		_, err := client.Read(t.Context(), usage.Query{Namespaces: []string{"shop"}, Start: now, End: now, Step: time.Minute, RateWindow: time.Minute}, func(usage.Series) {})
		return err
	}
	require.ErrorContains(t, ask(), "token", "there is no file yet")
	write(valid)
	require.NoError(t, ask())
	valid = "second"
	write(valid)
	require.ErrorContains(t, ask(), "rejects the credentials")
	require.NoError(t, ask(), "read again")
}
