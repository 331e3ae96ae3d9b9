package certs

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// Keys of the Secret. The names of the first three are those that cert-manager uses.
const (
	certKey = "tls.crt" // the serving certificate
	keyKey  = "tls.key" // its private key
	// bundleKey holds every authority that is trusted, the one that signs first.
	bundleKey = "ca.crt"
	// authorityKey is the private key of the authority that signs.
	authorityKey = "ca.key"
)

// Data is the data of a Secret, by the keys above.
type Data = map[string][]byte

// Action is what has to be done to a Secret.
type Action string

const (
	// Keep means that everything is valid and fresh.
	Keep Action = "Keep"
	// RenewLeaf means a new serving certificate of the same authority.
	RenewLeaf Action = "RenewLeaf"
	// RenewAuthority means a new authority beside the old one, which stays trusted. The serving certificate stays
	// too, so the API server trusts the new authority before it meets a certificate of it.
	RenewAuthority Action = "RenewAuthority"
	// Replace means a new authority and a new serving certificate, because those in the Secret cannot be used. An
	// authority that is still valid stays trusted.
	Replace Action = "Replace"
)

// Plan is what to do to a Secret, and when to look again.
type Plan struct {
	// Action is what to do now.
	Action Action
	// Reason is a clause for the log; empty where Action is Keep.
	Reason string
	// Next is when something will be due; zero unless Action is Keep.
	Next time.Time
}

// PlanFor judges the data of a Secret that is to hold a certificate for the DNS names. nil and empty data mean
// Replace. Renewal is due after two thirds of a life, as with cert-manager's default, so that a third is left for
// failures.
//
// The authority is judged first: without it no serving certificate can be trusted. Where both are due, the
// authority is renewed first, and the serving certificate by the next plan.
func PlanFor(now time.Time, data Data, names []string) Plan {
	if len(data) == 0 {
		return Plan{Action: Replace, Reason: "there is none yet"}
	}
	authority, err := readAuthority(now, data)
	if err != nil {
		return Plan{Action: Replace, Reason: err.Error()}
	}
	leaf, err := readLeaf(now, data, names)
	if err != nil {
		return Plan{Action: RenewLeaf, Reason: err.Error()}
	}
	// The authority comes first: a serving certificate that is renewed by an authority near its end would end with
	// it.
	switch {
	case !now.Before(due(authority.cert)):
		return Plan{Action: RenewAuthority, Reason: "two thirds of the authority's life are over"}
	case !now.Before(due(leaf)):
		return Plan{Action: RenewLeaf, Reason: "two thirds of the certificate's life are over"}
	}
	return Plan{Action: Keep, Next: earliest(due(authority.cert), due(leaf))}
}

// authority is a certificate that signs others, with its private key.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// readAuthority returns the authority that signs, which is the first of the bundle. An error means that its key
// does not fit, that it is no authority, or that it is not valid at present.
func readAuthority(now time.Time, data Data) (*authority, error) {
	pair, err := tls.X509KeyPair(data[bundleKey], data[authorityKey])
	if err != nil {
		return nil, fmt.Errorf("no usable authority: %w", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	switch {
	case !ok:
		return nil, errors.New("no usable authority: its key is not ECDSA")
	case !pair.Leaf.IsCA:
		return nil, errors.New("no usable authority: it may not sign")
	}
	if err := validNow(now, pair.Leaf); err != nil {
		return nil, fmt.Errorf("no usable authority: %w", err)
	}
	return &authority{cert: pair.Leaf, key: key}, nil
}

// readLeaf returns the serving certificate if a client that trusts the bundle would accept it for every one of the
// names.
func readLeaf(now time.Time, data Data, names []string) (*x509.Certificate, error) {
	pair, err := tls.X509KeyPair(data[certKey], data[keyKey])
	if err != nil {
		return nil, fmt.Errorf("no usable certificate: %w", err)
	}
	roots := x509.NewCertPool()
	for _, cert := range trusted(now, data) {
		roots.AddCert(cert)
	}
	for _, name := range names {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now}); err != nil {
			return nil, fmt.Errorf("no usable certificate: %w", err)
		}
	}
	return pair.Leaf, nil
}

// trusted returns the bundle's authorities that are valid at present. Blocks that are no certificate are skipped.
func trusted(now time.Time, data Data) (certs []*x509.Certificate) {
	for block, rest := pem.Decode(data[bundleKey]); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && cert.IsCA && validNow(now, cert) == nil {
			certs = append(certs, cert)
		}
	}
	return certs
}

// validNow returns an error for a certificate that is not valid yet, or no longer.
func validNow(now time.Time, cert *x509.Certificate) error {
	switch {
	case now.Before(cert.NotBefore):
		return fmt.Errorf("not valid before %s", cert.NotBefore.UTC().Format(time.RFC3339))
	case now.After(cert.NotAfter):
		return fmt.Errorf("expired at %s", cert.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// due returns when two thirds of a certificate's life are over.
func due(cert *x509.Certificate) time.Time {
	return cert.NotBefore.Add(cert.NotAfter.Sub(cert.NotBefore) * 2 / 3)
}

// earliest returns the earlier one of two times.
func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
