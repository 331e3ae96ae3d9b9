package certs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

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
