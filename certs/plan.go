package certs

import (
	"bytes"
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

// earliest of some times.
func earliest(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }

const (
	// authorityLife and leafLife are how long what is issued is valid. An authority that changes is a risk for
	// every review, so it lives long; the serving certificate's key is on every replica, so it lives short.
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 90 * 24 * time.Hour
	// backdate is how far in the past the validity begins, for clients whose clocks are behind.
	backdate = time.Hour
)

// Issue carries out an action and returns the Secret's new data. It does not change data, whose maps and slices
// are reused. Keep returns a copy. names must not be empty where a serving certificate is issued.
func Issue(now time.Time, action Action, data Data, names []string) (Data, error) {
	// The copy lets a failure leave the Secret as it was.
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

// issueAuthority puts a new authority in front of those that are still valid. Expired ones are left out, so the
// bundle does not grow for ever.
func issueAuthority(now time.Time, data Data) error {
	cert, key, err := certify(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "attune webhook authority"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		// The authority signs serving certificates, and no other authority.
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

// issueLeaf issues a serving certificate for the names. It ends with its authority at the latest, since it is of
// no use after that.
func issueLeaf(now time.Time, data Data, names []string) error {
	by, err := readAuthority(now, data)
	if err != nil {
		return err
	}
	data[certKey], data[keyKey], err = certify(serving(now, earliest(now.Add(leafLife), by.cert.NotAfter), names), by)
	return err
}

// Own makes a certificate for names that signs itself: no client can verify it. Its key is of the curve P-256, so that strangers
// who begin many handshakes cost a server a tenth of what they would with RSA.
func Own(now time.Time, names ...string) (tls.Certificate, error) {
	cert, key, err := certify(serving(now, now.Add(authorityLife), names), nil)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// serving is a serving certificate for names that ends at a time.
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

// certify makes a key, and the certificate for it that an authority signs; nil: it signs itself. Both are PEM.
func certify(template *x509.Certificate, by *authority) (cert, private []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if by == nil {
		by = &authority{template, key}
	}
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
