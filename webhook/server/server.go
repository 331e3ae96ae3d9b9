// Package server serves the webhooks to the API server over TLS. Every pod of the cluster can connect to its port, so
// it limits the cost of a client: connections, time, and memory.
//
// The path of a request:
//  1. server.go accepts the connection; ports.Connections limits their number.
//  2. Clients checks the client's certificate, if that is enabled.
//  3. bounded.go reads the body within the memory that room shares among all reviews in flight.
//  4. The handler (webhook/pod, webhook/validation) answers. Metrics counts the requests that reached no handler.
//
// The package knows nothing about pods or policies. If it rejects a request, the webhook's failurePolicy decides what
// the API server does: for pods it is Ignore. Start reading with bounded.ServeHTTP and room.take.
package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"attune.io/attune/internal/ports"
)

const (
	// readTimeout ends a handshake or a request that has not arrived completely. An API server sends a review at
	// once.
	readTimeout = 2 * time.Second
	// writeTimeout ends an answer that the client does not read.
	writeTimeout = 5 * time.Second
	// idleTimeout is how long the API server keeps an idle connection.
	idleTimeout = 90 * time.Second
	// drainTimeout limits the requests that are being answered when the server stops.
	drainTimeout = 10 * time.Second

	// maxHeader limits the header of a request, in bytes.
	maxHeader = 16 << 10
	// maxConnections is many more than API servers need: each keeps 25 idle ones, and a review takes less than a
	// millisecond.
	maxConnections = 512
)

// Options of a server. All fields except Clients are required.
type Options struct {
	// Port to listen at, on all addresses of the pod.
	Port int
	// GetCertificate returns the server's certificate for each handshake, so that it can be renewed without a
	// restart.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Clients that may call; the zero value lets every client call.
	Clients Clients
	// Bytes is the memory for all reviews in flight together. One review may take half of it.
	Bytes int64
	// Metrics count the requests that reach no handler.
	Metrics *Metrics
}

// Server serves webhooks over TLS. It implements controller-runtime's webhook.Server, whose own implementation does
// not limit the time in which a request is read.
type Server struct {
	// The embedded server holds the handlers and measures their answers; it is never started.
	webhook.Server
	options     Options
	connections *ports.Connections
	// readTimeout is a field so that tests can change it.
	readTimeout time.Duration
}

var _ webhook.Server = (*Server)(nil)

// New returns a server that listens once it is started.
func New(o Options) *Server {
	return &Server{
		Server:      webhook.NewServer(webhook.Options{Port: o.Port}),
		options:     o,
		connections: &ports.Connections{Most: maxConnections, Dropped: o.Metrics.dropped.WithLabelValues(connections).Inc},
		readTimeout: readTimeout,
	}
}

// Start serves until the context ends, then finishes the requests that are being answered, within drainTimeout. An
// error means that the server could not listen, could not read the clients' authorities, or did not stop in time.
func (s *Server) Start(ctx context.Context) error {
	listener, err := net.Listen("tcp", s.address())
	if err != nil {
		return err
	}
	return s.serve(ctx, listener)
}

// serve runs the HTTP server on a listener, which it always closes. Shutdown runs in its own goroutine because Serve
// returns as soon as Shutdown starts: without waiting for drained, the process would end before it has answered.
func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	config, err := s.tls()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := ports.New(ports.Options{
		Handler:     &bounded{next: s.WebhookMux(), room: newRoom(s.options.Bytes), metrics: s.options.Metrics},
		Connections: s.connections,
		Read:        s.readTimeout, Write: writeTimeout, Idle: idleTimeout,
		Header: maxHeader,
	})
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		drained <- server.Shutdown(ctx)
	})
	err = server.Serve(tls.NewListener(listener, config))
	if stop() {
		return errors.Join(err, server.Close())
	}
	if err := <-drained; err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// tls is the configuration of handshakes. It offers only HTTP/1.1: a connection then carries one request at a time,
// so the limit on connections also limits requests.
func (s *Server) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: s.options.GetCertificate}
	return config, s.options.Clients.ask(config)
}

// StartedChecker returns a health check that succeeds if a connection to the port is accepted.
func (s *Server) StartedChecker() healthz.Checker {
	return func(r *http.Request) error {
		c, err := net.DialTimeout("tcp", s.address(), readTimeout)
		if err != nil {
			return fmt.Errorf("the webhooks' port does not answer: %w", err)
		}
		return c.Close()
	}
}

func (s *Server) address() string { return net.JoinHostPort("", strconv.Itoa(s.options.Port)) }

// Clients are the clients that may call the webhooks. The zero value allows all.
type Clients struct {
	// CAFile is a file of PEM certificates that client certificates are verified with; empty: clients need no
	// certificate.
	CAFile string
	// Names are the common names that a client's certificate may have; empty: any name. Without CAFile they have
	// no effect.
	Names []string
}

// ask makes the TLS configuration require a certificate of every client. The file is read again for every handshake,
// because it may be replaced while the server runs. Handshakes are rare: one connection of the API server carries
// many reviews. An error means that the file cannot be used.
func (c Clients) ask(config *tls.Config) error {
	if c.CAFile == "" {
		return nil
	}
	if _, err := c.authorities(); err != nil {
		return err
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.VerifyConnection = c.named
	each := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		authorities, err := c.authorities()
		if err != nil {
			return nil, err
		}
		config := each.Clone()
		config.ClientCAs = authorities
		return config, nil
	}
	return nil
}

// authorities reads the certificates of CAFile. Errors name the flag, because users who set the flag see them.
func (c Clients) authorities() (*x509.CertPool, error) {
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--webhook-client-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--webhook-client-ca-file %s has no certificate: use a file of PEM certificates", c.CAFile)
	}
	return pool, nil
}

// named rejects a certificate with another name. It runs in VerifyConnection and not in VerifyPeerCertificate, which
// is skipped for resumed sessions.
func (c Clients) named(state tls.ConnectionState) error {
	if len(c.Names) == 0 {
		return nil
	}
	name := state.PeerCertificates[0].Subject.CommonName
	if !slices.Contains(c.Names, name) {
		return fmt.Errorf("the client certificate has the common name %q, which may not call the webhooks", name)
	}
	return nil
}
