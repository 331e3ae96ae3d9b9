// Package certs provides the serving certificate of the webhooks. There are two providers: Files reads a
// certificate that cert-manager keeps fresh, and SelfSigned issues and rotates one itself, where there is no
// cert-manager.
//
// SelfSigned does this, in a loop and after each change of the Secret or of a webhook configuration:
//
//  1. PlanFor judges the Secret, Issue makes what is due, and the Secret is written (plan.go).
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
	// Start keeps the certificate fresh until the context ends.
	// It blocks. The manager calls it once.
	Start(context.Context) error
	// NeedLeaderElection returns false: every replica serves.
	NeedLeaderElection() bool
	// Ready is a readiness check. It returns nil while a certificate that is valid at present can be served.
	Ready(*http.Request) error
}

// Files is a Provider that serves tls.crt and tls.key of a folder, where the Secret of cert-manager is mounted. It
// reads them again when they change. It never writes them.
// CertWatcher of controller-runtime reads the files, and implements GetCertificate, Start and NeedLeaderElection.
type Files struct {
	*certwatcher.CertWatcher
	clock clock.PassiveClock
}

var _ Provider = (*Files)(nil)

// NewFiles makes a Files. An error means that the folder holds no key pair.
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

// servable returns an error where there is no certificate, or none that is valid at present.
func servable(now clock.PassiveClock, cert *tls.Certificate) error {
	if cert == nil || cert.Leaf == nil {
		return errors.New("no serving certificate yet")
	}
	if err := validNow(now.Now(), cert.Leaf); err != nil {
		return fmt.Errorf("serving certificate: %w", err)
	}
	return nil
}
