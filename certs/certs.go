// Package certs provides the serving certificate of the webhooks: from files that cert-manager keeps
// fresh, or issued and rotated here where there is no cert-manager.
package certs

import (
	"context"
	"crypto/tls"
	"net/http"
)

// Provider of a serving certificate. Every replica runs one, leader or not.
type Provider interface {
	// GetCertificate is for tls.Config. It fails where there is no certificate yet.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Start keeps the certificate fresh until the context ends.
	Start(context.Context) error
	// NeedLeaderElection is false.
	NeedLeaderElection() bool
	// Ready is a readiness check: nil once the certificate can be served and is valid now.
	Ready(*http.Request) error
}
