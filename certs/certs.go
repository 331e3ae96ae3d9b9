// Package certs provides the serving certificate of the webhooks. There are two providers: Files reads a
// certificate that cert-manager keeps fresh, and SelfSigned issues and rotates one itself, where there is no
// cert-manager.
//
// SelfSigned does this, in a loop and after each change of the Secret or of a webhook configuration:
//
//  1. PlanFor judges the Secret, Issue makes what is due, and the Secret is written (plan.go, issue.go).
//  2. The webhook configurations get the authorities of the Secret as their caBundle (trust.go).
//  3. After a pause in which API servers see that, the certificate is served (selfsigned.go).
//
// The order matters: a certificate that is served before its authority is trusted makes the API server refuse the
// webhook, and no pod is sized meanwhile. A replica never serves a certificate that does not match its names.
// PlanFor and Issue are functions of their arguments, without a client. Start reading at plan.go.
package certs

import (
	"context"
	"crypto/tls"
	"net/http"
)

// Provider keeps a serving certificate. Every replica runs one, leader or not. It is safe for concurrent use.
type Provider interface {
	// GetCertificate is for tls.Config. It returns an error while there is no certificate.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Start keeps the certificate fresh until the context ends.
	// It blocks. The manager calls it once.
	Start(context.Context) error
	// NeedLeaderElection returns false: every replica serves.
	NeedLeaderElection() bool
	// Ready is a readiness check. It returns nil while a certificate that is valid at present can be served.
	Ready(*http.Request) error
}
