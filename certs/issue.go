package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"time"
)

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
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "attune webhook authority"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		// The authority signs serving certificates, and no other authority.
		MaxPathLenZero: true,
		KeyUsage:       x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	cert, err := sign(template, template, key, key)
	if err != nil {
		return err
	}
	bundle := bytes.NewBuffer(cert)
	for _, old := range trusted(now, data) {
		bundle.Write(certPEM(old.Raw))
	}
	data[bundleKey] = bundle.Bytes()
	data[authorityKey], err = keyPEM(key)
	return err
}

// issueLeaf issues a serving certificate for the names. It ends with its authority at the latest, since it is of
// no use after that.
func issueLeaf(now time.Time, data Data, names []string) error {
	by, err := readAuthority(now, data)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		DNSNames:    names,
		NotBefore:   now.Add(-backdate),
		NotAfter:    earliest(now.Add(leafLife), by.cert.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if data[certKey], err = sign(template, by.cert, key, by.key); err != nil {
		return err
	}
	data[keyKey], err = keyPEM(key)
	return err
}

// sign makes a certificate in PEM with a random serial number.
func sign(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		return nil, err
	}
	return certPEM(raw), nil
}

// certPEM encodes a certificate in PEM.
func certPEM(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// keyPEM encodes a private key as PKCS #8 in PEM.
func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}
