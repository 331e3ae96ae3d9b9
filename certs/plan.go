package certs

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"
)

// Keys of the Secrets. cert-manager uses the same names for the first three.
const (
	certKey = "tls.crt" // the serving certificate
	keyKey  = "tls.key" // its private key
	// bundleKey holds all trusted authorities. The first one signs.
	bundleKey = "ca.crt"
	// authorityKey is the private key of the authority that signs.
	authorityKey = "ca.key"
)

// Data is the data of a Secret, by the keys above. PlanFor and Issue expect the data of both Secrets (see join).
type Data = map[string][]byte

// join returns the data of both Secrets as one. A valid authority that only one of them has stays trusted.
//
// Earlier versions kept the authority's key in the serving Secret. If a key is there, an earlier version wrote it last,
// and the serving Secret takes precedence: during an upgrade, replicas of both versions then agree.
func join(now time.Time, authority, serving Data) Data {
	joined := maps.Clone(serving)
	if joined == nil {
		joined = Data{}
	}
	if len(serving[authorityKey]) > 0 || len(authority) == 0 {
		return joined
	}
	bundle, known := bytes.Clone(authority[bundleKey]), trusted(now, authority)
	for _, cert := range trusted(now, serving) {
		if !slices.ContainsFunc(known, cert.Equal) {
			bundle = append(append(bytes.TrimSpace(bundle), '\n'), certPEM(cert.Raw)...)
		}
	}
	joined[bundleKey], joined[authorityKey] = bundle, authority[authorityKey]
	return joined
}

// split is the opposite of join: it returns the data for each Secret. The webhook reads serving, so serving never has
// the authority's key.
func split(joined Data) (authority, serving Data) {
	serving = maps.Clone(joined)
	delete(serving, authorityKey)
	return Data{bundleKey: joined[bundleKey], authorityKey: joined[authorityKey]}, serving
}

// Action is the change that a Secret needs.
type Action string

const (
	// Keep means that everything is valid and no renewal is due.
	Keep Action = "Keep"
	// RenewLeaf means a new serving certificate from the same authority.
	RenewLeaf Action = "RenewLeaf"
	// RenewAuthority means a new authority in addition to the old one, which stays trusted. The serving certificate
	// stays too, so that the API server trusts the new authority before it sees a certificate signed by it.
	RenewAuthority Action = "RenewAuthority"
	// Replace means a new authority and a new serving certificate, because the ones in the Secret are not usable. An
	// authority that is still valid stays trusted.
	Replace Action = "Replace"
)

// Plan says how to change a Secret, and when to check it again.
type Plan struct {
	// Action is the change to make now.
	Action Action
	// Reason is a clause for the log; empty if Action is Keep.
	Reason string
	// Next is when the next renewal is due; zero unless Action is Keep.
	Next time.Time
}

// PlanFor checks the data of a Secret that must hold a certificate for the DNS names. nil and empty data mean Replace.
// Renewal is due after two thirds of a certificate's lifetime, as with cert-manager's default. The last third is the
// reserve for failures.
//
// PlanFor checks the authority first, because no client trusts a serving certificate without it. If both are due, it
// renews the authority now and the serving certificate with the next plan.
func PlanFor(now time.Time, data Data, names []string) Plan {
	if len(data) == 0 {
		return Plan{Action: Replace, Reason: "no certificate exists yet"}
	}
	authority, err := readAuthority(now, data)
	if err != nil {
		return Plan{Action: Replace, Reason: err.Error()}
	}
	leaf, err := readLeaf(now, data, names)
	if err != nil {
		return Plan{Action: RenewLeaf, Reason: err.Error()}
	}
	// The authority comes first: a serving certificate from an authority near its expiry would expire with it.
	switch {
	case !now.Before(due(authority.cert)):
		return Plan{Action: RenewAuthority, Reason: "two thirds of the authority's lifetime have passed"}
	case !now.Before(due(leaf)):
		return Plan{Action: RenewLeaf, Reason: "two thirds of the certificate's lifetime have passed"}
	}
	return Plan{Action: Keep, Next: earliest(due(authority.cert), due(leaf))}
}

// authority is a certificate that signs others, with its private key.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// readAuthority returns the signing authority, the first of the bundle. It returns an error if the key does not
// match, if the certificate is not an authority, or if it is not valid now.
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
		return nil, errors.New("no usable authority: it may not sign certificates")
	}
	if err := validNow(now, pair.Leaf); err != nil {
		return nil, fmt.Errorf("no usable authority: %w", err)
	}
	return &authority{cert: pair.Leaf, key: key}, nil
}

// readLeaf returns the serving certificate. It returns an error if a client that trusts the bundle would reject it
// for any of the names.
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

// trusted returns the authorities of the bundle that are valid now. It skips blocks that are not certificates.
func trusted(now time.Time, data Data) (certs []*x509.Certificate) {
	for block, rest := pem.Decode(data[bundleKey]); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && cert.IsCA && validNow(now, cert) == nil {
			certs = append(certs, cert)
		}
	}
	return certs
}

// validNow returns an error if a certificate is not valid yet or has expired.
func validNow(now time.Time, cert *x509.Certificate) error {
	switch {
	case now.Before(cert.NotBefore):
		return fmt.Errorf("not valid before %s", cert.NotBefore.UTC().Format(time.RFC3339))
	case now.After(cert.NotAfter):
		return fmt.Errorf("expired at %s", cert.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// due returns when two thirds of a certificate's lifetime have passed.
func due(cert *x509.Certificate) time.Time {
	return cert.NotBefore.Add(cert.NotAfter.Sub(cert.NotBefore) * 2 / 3)
}

// earliest returns the earliest of some times.
func earliest(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }

const (
	// authorityLife and leafLife are the lifetimes of issued certificates. A change of the authority can break
	// admission, so the authority lives long. Every replica has the serving certificate's key, so that one lives
	// short.
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 90 * 24 * time.Hour
	// backdate is how far in the past the validity begins, for clients with slow clocks.
	backdate = time.Hour
)

// Issue carries out an action and returns the new data of both Secrets. It does not change data; the result shares its
// slices. For Keep it returns a copy. names must not be empty if the action issues a serving certificate.
func Issue(now time.Time, action Action, data Data, names []string) (Data, error) {
	// Work on a copy, so that data stays unchanged on failure.
	issued := maps.Clone(data)
	if issued == nil {
		issued = Data{}
	}
	if action == RenewAuthority || action == Replace {
		if err := issueAuthority(now, issued); err != nil {
			return nil, fmt.Errorf("issuing an authority: %w", err)
		}
	}
	if action == RenewLeaf || action == Replace {
		if err := issueLeaf(now, issued, names); err != nil {
			return nil, fmt.Errorf("issuing a serving certificate: %w", err)
		}
	}
	return issued, nil
}

// issueAuthority puts a new authority in front of the valid ones. It drops expired ones, so the bundle does not
// grow without limit.
func issueAuthority(now time.Time, data Data) error {
	cert, key, err := certify(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "attune webhook authority"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		// The authority may sign serving certificates, but no other authority.
		MaxPathLenZero: true,
		KeyUsage:       x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil)
	if err != nil {
		return err
	}
	bundle := bytes.NewBuffer(cert)
	for _, old := range trusted(now, data) {
		bundle.Write(certPEM(old.Raw))
	}
	data[bundleKey], data[authorityKey] = bundle.Bytes(), key
	return nil
}

// issueLeaf issues a serving certificate for the names. It expires with its authority at the latest, because
// clients reject it after that.
func issueLeaf(now time.Time, data Data, names []string) error {
	by, err := readAuthority(now, data)
	if err != nil {
		return err
	}
	data[certKey], data[keyKey], err = certify(serving(now, earliest(now.Add(leafLife), by.cert.NotAfter), names), by)
	return err
}

// Own returns a self-signed certificate for names, which no client can verify. Its key uses the curve P-256: with
// RSA, unauthenticated clients that start many handshakes would cost the server ten times as much CPU.
func Own(now time.Time, names ...string) (tls.Certificate, error) {
	cert, key, err := certify(serving(now, now.Add(authorityLife), names), nil)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// serving returns the template of a serving certificate for names that expires at ends.
func serving(now, ends time.Time, names []string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		DNSNames:    names,
		NotBefore:   now.Add(-backdate),
		NotAfter:    ends,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

// certify generates a key and a certificate for it, signed by the authority, or self-signed if by is nil. Both are
// PEM.
func certify(template *x509.Certificate, by *authority) (cert, private []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	by = cmp.Or(by, &authority{template, key})
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return nil, nil, err
	}
	private, err = x509.MarshalPKCS8PrivateKey(key)
	return certPEM(raw), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), err
}

// certPEM encodes a certificate in PEM.
func certPEM(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}
