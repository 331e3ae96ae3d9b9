package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
)

// Clients are those who may call the webhooks.
type Clients struct {
	// CAFile has the certificates that a client's own is verified with; empty: nobody is asked for one.
	CAFile string
	// Names are the common names that a client's certificate may have; empty: any.
	Names []string
}

// ask has a server demand a certificate of every client. The file is read for every handshake, since it is exchanged
// while the server runs; a connection of the API server carries many reviews.
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

// named refuses a certificate of another name. It is asked where a session is resumed, too.
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
