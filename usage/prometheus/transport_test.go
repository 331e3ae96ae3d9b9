package prometheus

import (
	"errors"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/usage"
)

// A server that was never reached found no query too large, and what is said of it is the same each time.
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
			"cannot be reached (dial tcp 10.0.0.2:9090: i/o timeout): it is asked again at the next cycle",
		},
		"no answer of the name server": {
			func(int) error { return &net.DNSError{Err: "i/o timeout", Name: "prometheus", IsTimeout: true} },
			"cannot be reached (lookup prometheus: i/o timeout): it is asked again at the next cycle",
		},
		"cut off": {
			func(port int) error {
				return &net.OpError{Op: "read", Net: "tcp", Source: from(port), Addr: to, Err: syscall.ECONNRESET}
			},
			"cannot be reached (read tcp 10.0.0.2:9090: connection reset by peer): it is asked again at the next cycle",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, port := range []int{41000, 42000} {
				failure := c.transportFailure(&url.Error{Op: "Post", URL: "http://prometheus:9090/api/v1/query", Err: test.err(port)})
				assert.Equal(t, Unreachable, failure.Reason)
				assert.Contains(t, failure.Error(), test.want)
				assert.False(t, errors.Is(failure, usage.ErrTooMuch))
			}
		})
	}
}
