package ports

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// Connections bounds the open connections without refusing new ones: beyond Most, one connection of the address
// that has the most is closed, namely the one that has been in its state for longest. A caller that opens many
// connections loses its own. Connections of API servers, kubelets and scrapers are busy for a moment only, and are
// opened again where they were idle.
type Connections struct {
	// Most is how many connections may be open.
	Most int
	// Dropped is called for each connection that is closed for another one. It must not be nil, and must not call
	// this.
	Dropped func()

	mutex sync.Mutex
	of    map[net.Conn]connection
}

type connection struct {
	source string
	since  time.Time
}

// Open returns how many connections there are.
func (c *Connections) Open() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.of)
}

// changed is the ConnState callback of the HTTP server, which calls it for every change of a connection's state.
func (c *Connections) changed(conn net.Conn, state http.ConnState) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.of == nil {
		c.of = map[net.Conn]connection{}
	}
	if state == http.StateClosed || state == http.StateHijacked {
		delete(c.of, conn)
		return
	}
	if _, known := c.of[conn]; !known && state != http.StateNew {
		return // being closed
	}
	c.of[conn] = connection{source: sourceOf(conn), since: time.Now()}
	if len(c.of) > c.Most {
		oldest := c.oldest()
		delete(c.of, oldest)
		c.Dropped()
		abort(oldest)
	}
}

// oldest returns the oldest connection of the address that has the most. The caller holds mutex.
func (c *Connections) oldest() (oldest net.Conn) {
	count := map[string]int{}
	for _, one := range c.of {
		count[one.source]++
	}
	for conn, one := range c.of {
		if oldest == nil {
			oldest = conn
			continue
		}
		than := c.of[oldest]
		if n, m := count[one.source], count[than.source]; n > m || n == m && one.since.Before(than.since) {
			oldest = conn
		}
	}
	return oldest
}

// abort closes a connection without the farewell of TLS, which waits for a peer that does not read.
func abort(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}

func sourceOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return ""
	}
	return host
}
