package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
)

// Clients are the clients that may call the webhooks. The zero value allows all.
type Clients struct {
	// CAFile is a file of PEM certificates by which a client's certificate is verified; empty: no certificate is
	// asked for.
	CAFile string
	// Names are the common names that a client's certificate may have; empty: any name. Without CAFile they have
	// no effect.
	Names []string
}

// ask makes the TLS configuration demand a certificate of every client. The file is read again for every
// handshake, since it may be replaced while the server runs; that is seldom, as one connection of the API server
// carries many reviews. An error means that the file cannot be used.
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

// authorities reads the certificates of CAFile. Errors name the flag, as they are shown to the person who set it.
func (c Clients) authorities() (*x509.CertPool, error) {
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--webhook-client-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--webhook-client-ca-file %s holds no certificate: use a file of PEM certificates", c.CAFile)
	}
	return pool, nil
}

// named refuses a certificate with another name. It runs in VerifyConnection and not in VerifyPeerCertificate,
// which is skipped for resumed sessions.
func (c Clients) named(state tls.ConnectionState) error {
	if len(c.Names) == 0 {
		return nil
	}
	name := state.PeerCertificates[0].Subject.CommonName
	if !slices.Contains(c.Names, name) {
		return fmt.Errorf("the client's certificate is of %q, which may not call", name)
	}
	return nil
}
