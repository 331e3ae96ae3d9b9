// Package pki makes the keys, certificates and kubeconfigs of one cluster: a
// throw-away authority that nothing outside the cluster trusts.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"attune.io/attune/test/cluster/internal/spec"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const validity = 10 * 365 * 24 * time.Hour

// authority signs the cluster's certificates and writes them below dir.
type authority struct {
	dir    string
	cert   *x509.Certificate
	key    crypto.Signer
	serial int64
}

type identity struct {
	file  string
	name  string
	group string
	dns   []string
	ips   []string
}

// Write makes everything a cluster of that many nodes needs in dir: NAME.crt and
// NAME.key per identity, sa.key and sa.pub, and NAME.conf (a kubeconfig) for
// those who call the API.
func Write(dir string, nodes int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := newAuthority(dir)
	if err != nil {
		return fmt.Errorf("making the cluster's CA: %w", err)
	}
	if err := ca.issueAll(nodes); err != nil {
		return err
	}
	return serviceAccountKey(dir)
}

func (a *authority) issueAll(nodes int) error {
	servers := []identity{
		{file: "apiserver", name: "kube-apiserver", ips: []string{spec.ControlPlaneIP, spec.ServiceIP, "127.0.0.1"},
			dns: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}},
		{file: "kubelet-client", name: "kube-apiserver-kubelet-client", group: "system:masters"},
	}
	clients := []identity{
		{file: "admin", name: "admin", group: "system:masters"},
		{file: "controller-manager", name: "system:kube-controller-manager"},
		{file: "scheduler", name: "system:kube-scheduler"},
		{file: "proxy", name: "system:kube-proxy"},
	}
	for i := 1; i <= nodes; i++ {
		node := spec.NodeName(i)
		clients = append(clients, identity{file: node, name: "system:node:" + node, group: "system:nodes", dns: []string{node}, ips: []string{spec.NodeIP(i)}})
	}
	for _, id := range append(servers, clients...) {
		if err := a.issue(id); err != nil {
			return fmt.Errorf("issuing the certificate %s: %w", id.file, err)
		}
	}
	for _, id := range clients {
		if err := a.kubeconfig(id); err != nil {
			return fmt.Errorf("writing the kubeconfig %s: %w", id.file, err)
		}
	}
	return nil
}

func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "cluster-ca"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(validity),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a := &authority{dir: dir, cert: template, key: key, serial: 1}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, a.store("ca", der, key)
}

// issue makes a certificate good for serving and for calling both.
func (a *authority) issue(id identity) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial),
		Subject:      pkix.Name{CommonName: id.name},
		NotBefore:    a.cert.NotBefore,
		NotAfter:     a.cert.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     id.dns,
	}
	if id.group != "" {
		template.Subject.Organization = []string{id.group}
	}
	for _, ip := range id.ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return a.store(id.file, der, key)
}

func (a *authority) store(name string, cert []byte, key crypto.Signer) error {
	if err := writePEM(filepath.Join(a.dir, name+".crt"), "CERTIFICATE", cert); err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(filepath.Join(a.dir, name+".key"), "PRIVATE KEY", der)
}

// kubeconfig embeds the certificates, so that the file may be copied about.
func (a *authority) kubeconfig(id identity) error {
	read := func(name string) []byte {
		data, _ := os.ReadFile(filepath.Join(a.dir, name)) // written a moment ago
		return data
	}
	cfg := api.NewConfig()
	cfg.Clusters["cluster"] = &api.Cluster{Server: spec.APIServer, CertificateAuthorityData: read("ca.crt")}
	cfg.AuthInfos["user"] = &api.AuthInfo{ClientCertificateData: read(id.file + ".crt"), ClientKeyData: read(id.file + ".key")}
	cfg.Contexts["cluster"] = &api.Context{Cluster: "cluster", AuthInfo: "user"}
	cfg.CurrentContext = "cluster"
	return clientcmd.WriteToFile(*cfg, filepath.Join(a.dir, id.file+".conf"))
}

// serviceAccountKey is RSA: every released Kubernetes signs tokens with it.
func serviceAccountKey(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	private := x509.MarshalPKCS1PrivateKey(key)
	if err := writePEM(filepath.Join(dir, "sa.key"), "RSA PRIVATE KEY", private); err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, "sa.pub"), "PUBLIC KEY", public)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
