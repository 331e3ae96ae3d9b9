package embedded

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

// Limits of one kubelet answer. For a node with 500 containers it has 300 KiB on /metrics/resource, and 10 MiB on
// /metrics/cadvisor.
const (
	maxResourceBytes = 16 << 20
	maxCadvisorBytes = 64 << 20
	maxAnswerTime    = 10 * time.Second
)

// KubeletTLS configures how the certificates of kubelets are verified. The zero value verifies them with the cluster's
// own certificate authority, as metrics-server does.
type KubeletTLS struct {
	// CAFile has the PEM certificates for the verification. If empty, the certificates that verify the API server are
	// used: the cluster's own authority.
	CAFile string
	// InsecureSkipVerify accepts any certificate. A machine in the middle can then read the token.
	InsecureSkipVerify bool
}

// Kubelets returns a transport to kubelets. It authenticates only with the scraper's tokens; if tokens is nil, with the
// credentials of config. It connects only to addresses that a kubelet can have, and through no proxy. It returns an
// error if certificates or credentials cannot be read.
func Kubelets(config *rest.Config, verify KubeletTLS, tokens *Tokens) (http.RoundTripper, error) {
	// The configuration for the API server, without the parts that must not be sent to a node.
	wrapped, err := rest.TransportFor(kubeletConfig(config, verify, tokens))
	if err != nil {
		return nil, fmt.Errorf("setting up the connection to kubelets: %w", err)
	}
	return wrapped, nil
}

// kubeletConfig changes a copy of the API server's configuration. It uses HTTP/1.1, and removes impersonation, proxy
// and server name, which are meant for the API server.
func kubeletConfig(config *rest.Config, verify KubeletTLS, tokens *Tokens) *rest.Config {
	c := rest.CopyConfig(config)
	if tokens != nil {
		c = rest.AnonymousClientConfig(config)
		c.Wrap(transport.ResettableTokenSourceWrapTransport(tokens)) // a request is not sent without a token
	}
	c.Impersonate = rest.ImpersonationConfig{}
	c.TLSClientConfig.ServerName = ""
	c.TLSClientConfig.NextProtos = []string{"http/1.1"}
	c.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	c.Dial = (&net.Dialer{Timeout: maxAnswerTime / 2, Control: dialled}).DialContext
	switch {
	case verify.InsecureSkipVerify:
		c.TLSClientConfig.Insecure = true
		c.TLSClientConfig.CAFile, c.TLSClientConfig.CAData = "", nil
	case verify.CAFile != "":
		c.TLSClientConfig.CAFile, c.TLSClientConfig.CAData = verify.CAFile, nil
	}
	return c
}

// dialled rejects addresses that no kubelet can have. It runs after name resolution and just before the connection, so
// that a name cannot resolve to another address in between.
func dialled(_, to string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(to)
	if err != nil || !usage.AllowedAddress(at.Addr(), true) {
		return fmt.Errorf("the address %s is not allowed for a kubelet", to)
	}
	return nil
}

// kubelets is the client that reads metrics from kubelets. It is safe for concurrent use.
type kubelets struct {
	client http.Client
	scheme string
}

// newKubelets returns a client that follows no redirects.
func newKubelets(transport http.RoundTripper) *kubelets {
	return &kubelets{scheme: "https", client: http.Client{
		Transport: transport,
		// A redirect would send the token to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// get reads one answer of at most most bytes into a buffer, within maxAnswerTime. Its errors say what an administrator
// can do.
func (k *kubelets) get(ctx context.Context, node Node, path string, most int64, into *bytes.Buffer) error {
	ctx, cancel := context.WithTimeout(ctx, maxAnswerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.scheme+"://"+node.Address.String()+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	response, err := k.client.Do(request)
	if err != nil {
		return complaint(err)
	}
	defer response.Body.Close()
	if err := refusal(response); err != nil {
		return err
	}
	into.Reset()
	n, err := into.ReadFrom(io.LimitReader(response.Body, most+1))
	if err != nil {
		return complaint(err)
	}
	if n > most {
		return fmt.Errorf("its answer is larger than %d MiB and was cut off", most>>20)
	}
	return nil
}

// refusal returns the error of an answer with a status other than 200, or nil.
func refusal(response *http.Response) error {
	switch code := response.StatusCode; {
	case code == http.StatusUnauthorized:
		return errors.New("401: the kubelet rejects the token: enable its authentication.webhook, and check that the token's ServiceAccount exists")
	case code == http.StatusForbidden:
		return errors.New("403: the scraper's ServiceAccount may not get nodes/metrics")
	case code/100 == 3:
		return fmt.Errorf("%d: the kubelet redirects, and attune does not follow redirects of kubelets", code)
	case code != http.StatusOK:
		return fmt.Errorf("the kubelet answers %s", response.Status)
	}
	return nil
}

// complaint removes the URL from a transport error, and adds advice if the certificate is the cause.
func complaint(err error) error {
	err = prometheus.WithoutURL(err)
	if errors.As(err, new(x509.UnknownAuthorityError)) || errors.As(err, new(x509.HostnameError)) {
		return fmt.Errorf("%w: set kubelet.tls.caConfigMap to the CA of the kubelets' serving certificates, or kubelet.tls.insecureSkipVerify: true, as for metrics-server", err)
	}
	return err
}

// Node is a kubelet to scrape.
type Node struct {
	// Name of the Node object. It becomes the label node of all series.
	Name string
	// Address is the node's internal IP and the port of its kubelet.
	Address netip.AddrPort
	// Cores and Bytes are the node's capacity of CPU and memory; 0: not reported.
	Cores, Bytes float64
	// Excluded: the node is not scraped, and that is no failure.
	Excluded bool
	// Unusable is why the node cannot be scraped; nil: it can.
	Unusable error
}

// Scrapeable is the default selector of the nodes that are scraped: nodes of virtual kubelets and of Fargate have no
// kubelet that answers.
const Scrapeable = "type!=virtual-kubelet,eks.amazonaws.com/compute-type!=fargate"

// NodeOf returns a node with the address of its kubelet. The node is excluded if the selector does not match its labels,
// and unusable if it announces no port, or no internal IP, or an IP that could point at another service (loopback,
// link-local, multicast).
func NodeOf(node *corev1.Node, selector labels.Selector) Node {
	out := Node{
		Name:     node.Name,
		Cores:    node.Status.Capacity.Cpu().AsApproximateFloat64(),
		Bytes:    node.Status.Capacity.Memory().AsApproximateFloat64(),
		Excluded: !selector.Matches(labels.Set(node.Labels)),
	}
	out.Address, out.Unusable = addressOf(node)
	return out
}

// addressOf returns the address of a node's kubelet. The error says why it has none.
func addressOf(node *corev1.Node) (netip.AddrPort, error) {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if port <= 0 || port > 65535 {
		return netip.AddrPort{}, fmt.Errorf("node %s reports no kubelet port", node.Name)
	}
	for _, of := range node.Status.Addresses {
		if of.Type != corev1.NodeInternalIP {
			continue
		}
		ip, err := netip.ParseAddr(of.Address)
		if err != nil || !usage.AllowedAddress(ip, true) {
			return netip.AddrPort{}, fmt.Errorf("node %s has the internal address %q, which is not allowed: it must be an IP that is not loopback, link-local or multicast", node.Name, of.Address)
		}
		return netip.AddrPortFrom(ip, uint16(port)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("node %s has no internal IP", node.Name)
}
