// Package ports serves HTTP at ports that every pod on the network can reach. It bounds what callers may hold:
// their connections, their headers, and the time in which they send and read.
//
// New makes an http.Server with these bounds; the server reports each connection to Connections, which closes the
// oldest one of the greediest address when there are too many. The package knows nothing about what is served, and
// logs nothing about callers: a port scan would fill the log.
package ports

import (
	"io"
	"log"
	"net/http"
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
