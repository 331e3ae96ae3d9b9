// Package ports serves HTTP on ports that every pod on the network can reach. It limits what callers may use:
// connections, headers, and the time to send and read.
//
// New returns an http.Server with these limits. The server reports each connection to Connections. If there are too
// many, Connections closes the oldest connection of the address with the most connections. The package knows nothing
// about the served content and logs nothing about callers: a port scan would fill the log.
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

// Options of a server. All fields are required.
type Options struct {
	// Handler answers the requests.
	Handler http.Handler
	// Connections limits the connections of the server. It must not be nil.
	Connections *Connections
	// Read is the timeout of a handshake and of reading a request, Write the timeout of writing a response, and Idle
	// the timeout of an idle connection.
	Read, Write, Idle time.Duration
	// Header is the size limit of the headers of a request, in bytes.
	Header int
}

// New returns a server for HTTP/1.1: a connection carries one request at a time, so a limit on connections limits
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
		// A port scan would fill the log.
		ErrorLog: silent,
	}
}

// silent discards the errors that the HTTP server reports about connections.
var silent = log.New(io.Discard, "", 0)

// Connections limits the open connections without rejecting new ones. Above Most, it closes one connection of the
// address with the most connections: the one that has been in its state for the longest time. So a caller that opens
// many connections loses its own. API servers, kubelets and scrapers use a connection only
// briefly, and they reconnect if an idle connection was closed.
type Connections struct {
	// Most is the limit of open connections.
	Most int
	// Dropped is called for each connection that is closed in favour of another one. It must not be nil, and must not
	// call methods of Connections.
	Dropped func()

	mutex sync.Mutex
	of    map[net.Conn]connection
}

type connection struct {
	source string
	since  time.Time
}

// Open returns the number of open connections.
func (c *Connections) Open() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.of)
}

// changed is the ConnState callback of the HTTP server.
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
		return // it is being closed
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

// oldest returns the oldest connection of the address with the most connections. The caller holds mutex.
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

// abort closes a connection without the close message of TLS, which would wait for a peer that does not read.
func abort(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}

// Whole is a request body that a server has already read.
type Whole struct{ *bytes.Buffer }

// Close implements io.Closer and does nothing.
func (Whole) Close() error { return nil }

// Body reads the body of a request, up to most bytes. A body of type Whole is handed over without a copy; the server
// that read it has applied its own limit.
func Body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if whole, is := r.Body.(Whole); is {
		body := whole.Bytes()
		*whole.Buffer = bytes.Buffer{} // the request must not keep the body in memory during admission
		return body, nil
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), most)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, most))
	return body.Bytes(), err
}

// AtMost limits the number of concurrent requests. It answers any further request at once with a status and a message.
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

// Local serves only requests from this machine. It first checks the host, and then that the request does not come from
// a page of another origin.
func Local(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !loopbackHost(r.Host):
			http.Error(w, fmt.Sprintf("host %q is not allowed: use localhost through kubectl port-forward", r.Host), http.StatusForbidden)
		case foreignPage(r.Header.Get("Sec-Fetch-Site")):
			http.Error(w, "requests from pages of other origins are not allowed: type the address", http.StatusForbidden)
		default:
			handler.ServeHTTP(w, r)
		}
	})
}

// loopbackHost reports whether the Host header is a loopback name. Another name means that a web page made a browser
// send the request under its own name (DNS rebinding).
func loopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// foreignPage reports whether the header Sec-Fetch-Site names a page of another origin. A typed address sends "none",
// attune's own pages send "same-origin", and clients other than browsers send no header.
func foreignPage(fetchSite string) bool {
	return fetchSite != "" && fetchSite != "none" && fetchSite != "same-origin"
}
