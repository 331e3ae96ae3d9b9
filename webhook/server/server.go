// Package server serves the webhooks to the API server, and stays within bounds whoever else calls: anybody on the
// pod network reaches its port.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"attune.io/attune/internal/ports"
)

const (
	// readTimeout ends a handshake or a request that is not all here by then. An API server sends a review at once.
	readTimeout = 2 * time.Second
	// writeTimeout ends an answer that nobody reads.
	writeTimeout = 5 * time.Second
	// idleTimeout is as long as the API server keeps a connection that it does not use.
	idleTimeout = 90 * time.Second
	// drainTimeout is what requests may take that are under way when the server ends.
	drainTimeout = 10 * time.Second

	maxHeader = 16 << 10
	// maxConnections are many more than API servers need: each keeps 25 that are idle, and a review takes less than a
	// millisecond.
	maxConnections = 512
)

// Options of a server.
type Options struct {
	Port           int
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Clients who may call; the zero value is anybody.
	Clients Clients
	// Bytes are what all reviews in flight may take together.
	Bytes   int64
	Metrics *Metrics
}

// Server serves webhooks over TLS. It implements controller-runtime's webhook.Server, whose own has no bound on the time
// in which a request is read.
type Server struct {
	// The embedded one keeps the handlers and counts their answers; it is never started.
	webhook.Server
	options     Options
	connections *ports.Connections
	readTimeout time.Duration
}

var _ webhook.Server = (*Server)(nil)

// New makes a server that listens once it is started.
func New(o Options) *Server {
	return &Server{
		Server:      webhook.NewServer(webhook.Options{Port: o.Port}),
		options:     o,
		connections: &ports.Connections{Most: maxConnections, Dropped: o.Metrics.connections.Inc},
		readTimeout: readTimeout,
	}
}

// Start serves until the context ends, and then what is under way.
func (s *Server) Start(ctx context.Context) error {
	listener, err := net.Listen("tcp", s.address())
	if err != nil {
		return err
	}
	return s.serve(ctx, listener)
}

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

func (s *Server) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: s.options.GetCertificate}
	return config, s.options.Clients.ask(config)
}

// StartedChecker succeeds where something listens at the port.
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
