// Package certs provides the serving certificate of the webhooks. There are two providers. Files reads a certificate
// that cert-manager renews. SelfSigned issues and rotates a certificate itself, for clusters without cert-manager.
//
// SelfSigned does this in a loop, and after each change of a Secret or of a webhook configuration:
//
//  1. PlanFor checks the Secrets, Issue issues the certificates that are due, SelfSigned writes the Secrets (plan.go).
//     One Secret has the serving certificate, the other one the authority's key, which only the controller may read.
//  2. SelfSigned copies the authorities of the Secret into caBundle of the webhook configurations (trust.go).
//  3. It waits until the API servers have seen the bundle, then serves the certificate (selfsigned.go).
//
// The order matters. If a replica serves a certificate before the API server trusts its authority, the API server
// rejects the certificate, and created pods keep the resources of their template. A replica never serves a certificate
// that does not match its names.
// PlanFor and Issue are pure functions without a client. Start reading at plan.go.
package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Provider keeps a serving certificate. Every replica runs one, leader or not. It is safe for concurrent use.
type Provider interface {
	// GetCertificate is for tls.Config. It returns an error while there is no certificate.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Start renews the certificate until the context ends. It blocks. The manager calls it once.
	Start(context.Context) error
	// NeedLeaderElection returns false, because every replica serves.
	NeedLeaderElection() bool
	// Ready is a readiness check. It returns nil if a certificate that is valid now can be served.
	Ready(*http.Request) error
}

// Files is a Provider that serves tls.crt and tls.key of a folder where cert-manager's Secret is mounted. It reads
// them again when they change and never writes them. CertWatcher of controller-runtime reads the files and implements
// GetCertificate, Start and NeedLeaderElection.
type Files struct {
	*certwatcher.CertWatcher
	clock clock.PassiveClock
}

var _ Provider = (*Files)(nil)

// NewFiles returns a Files for folder. It returns an error if the folder has no valid key pair.
func NewFiles(folder string, now clock.PassiveClock) (*Files, error) {
	watcher, err := certwatcher.New(filepath.Join(folder, certKey), filepath.Join(folder, keyKey))
	if err != nil {
		return nil, fmt.Errorf("reading the serving certificate in %s (is cert-manager running, and its Certificate ready?): %w", folder, err)
	}
	return &Files{CertWatcher: watcher, clock: now}, nil
}

// Ready returns nil while the certificate is valid.
func (f *Files) Ready(*http.Request) error {
	cert, err := f.GetCertificate(nil)
	if err != nil {
		return err
	}
	return servable(f.clock, cert)
}

// servable returns an error if there is no certificate, or if it is not valid now.
func servable(now clock.PassiveClock, cert *tls.Certificate) error {
	if cert == nil || cert.Leaf == nil {
		return errors.New("no serving certificate yet")
	}
	if err := validNow(now.Now(), cert.Leaf); err != nil {
		return fmt.Errorf("serving certificate: %w", err)
	}
	return nil
}
