// Package ports serves HTTP at ports that every pod on the network can reach. It bounds what callers may hold:
// their connections, their headers, and the time in which they send and read.
//
// New makes an http.Server with these bounds; the server reports each connection to Connections, which closes the
// oldest one of the greediest address when there are too many. The package knows nothing about what is served, and
// logs nothing about callers: a port scan would fill the log.
package ports

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options of a server. All fields are needed.
type Options struct {
	// Handler answers the requests.
	Handler http.Handler
	// Connections bounds the connections of the server. It must not be nil.
	Connections *Connections
	// Read ends a handshake or a request that is not all here by then, Write an answer that is not read, and Idle a
	// connection that carries nothing.
	Read, Write, Idle time.Duration
	// Header is the most that the headers of a request may take, in bytes.
	Header int
}

// New makes a server for HTTP/1.1: a connection carries one request at a time, so that a bound on connections bounds
// requests.
func New(o Options) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:     o.Handler,
		ConnState:   o.Connections.changed,
		Protocols:   protocols,
		ReadTimeout: o.Read, ReadHeaderTimeout: o.Read, WriteTimeout: o.Write, IdleTimeout: o.Idle,
		MaxHeaderBytes: o.Header,
		// Whoever scans the port would fill the log.
		ErrorLog: silent,
	}
}

// silent takes what the HTTP server says of connections that are no use.
var silent = log.New(io.Discard, "", 0)

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
	source, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	c.of[conn] = connection{source: source, since: time.Now()}
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

// Whole is the body of a request that a server has read already.
type Whole struct{ *bytes.Buffer }

// Close implements io.Closer and does nothing.
func (Whole) Close() error { return nil }

// Body returns the body of a request, of at most so many bytes. One that is Whole is not copied but handed over,
// and has the bound of the server that read it.
func Body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if whole, is := r.Body.(Whole); is {
		body := whole.Bytes()
		*whole.Buffer = bytes.Buffer{} // the request must not keep the body in memory while it is judged
		return body, nil
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), most)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, most))
	return body.Bytes(), err
}

// AtMost limits the requests that are handled at the same time. A further one is answered with a status and a message at
// once.
func AtMost(most int, handler http.Handler, status int, message string) http.Handler {
	turns := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
			handler.ServeHTTP(w, r)
		default:
			http.Error(w, message, status)
		}
	})
}

// Local serves requests of this machine alone. It checks the host before anything else, and then that no page of another origin
// asks.
func Local(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !loopbackHost(r.Host):
			http.Error(w, fmt.Sprintf("host %q is not served here: ask localhost, through a forwarded port", r.Host), http.StatusForbidden)
		case foreignPage(r.Header.Get("Sec-Fetch-Site")):
			http.Error(w, "pages of other origins are not answered: type the address", http.StatusForbidden)
		default:
			handler.ServeHTTP(w, r)
		}
	})
}

// loopbackHost returns whether the Host header is a loopback name. Another name means that a web page made a
// browser ask here under a name of its own (DNS rebinding).
func loopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// foreignPage returns whether the header Sec-Fetch-Site says that a page of another origin makes the browser ask. A person
// who types the address asks with "none", the pages themselves with "same-origin", and what is no browser without one.
func foreignPage(fetchSite string) bool {
	return fetchSite != "" && fetchSite != "none" && fetchSite != "same-origin"
}
