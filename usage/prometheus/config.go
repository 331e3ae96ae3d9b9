// Package prometheus reads container usage from any server with the Prometheus HTTP API: Prometheus, Thanos, Mimir,
// VictoriaMetrics. Its PromQL expressions and its decoding rules are shared with package embedded, which evaluates the
// same expressions over scraped samples.
//
// The path of a query:
//
//  1. A Scope builds the PromQL expression (expression.go, signals.go).
//  2. An Asker evaluates it: Client sends it over HTTP (client.go), the embedded source evaluates it itself.
//  3. decode reads the answer while it arrives, one series at a time (decode.go).
//  4. A picker drops unusable samples, with a reason (read.go), and yields the others.
//  5. A failure becomes one sentence (failure.go).
//
// The client library's own range query would hold the whole answer three times (bytes, decoded, copied) and drop
// VictoriaMetrics' isPartial. The package never writes to a server and follows no redirect to another host. It accepts
// data only about the queried namespaces. Start reading at read.go and client.go.
package prometheus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/transport"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage"
)

// Defaults of a Config.
const (
	DefaultTimeout  = time.Minute
	DefaultMaxBytes = 256 << 20
	// PolicyMaxBytes bounds an answer of a server that a policy names, because all tenants share the operator's memory.
	// Larger data is queried in parts.
	PolicyMaxBytes = 32 << 20
)

// Config describes how to reach a server. The caller has read the Secrets. The zero value is not valid: it has no
// Address.
type Config struct {
	// Address is the base URL, without the /api/v1 part.
	Address string
	// Headers and Parameters are sent with every request. Parameters are added to the URL's query; nil: no parameters.
	Headers, Parameters map[string]string
	// Labels are matchers for every selector, such as a cluster label; nil: no matchers.
	Labels map[string]string
	// Username for basic authentication; empty: no basic authentication.
	Username string
	// Credentials has the secret values.
	Credentials Credentials
	// BearerTokenFile has a token that may be replaced at any time: it is read again every minute. Empty: no file.
	BearerTokenFile string
	// TLS configures the verification of the server. The zero value verifies with the system's authorities. The content
	// of its CASecret is in Credentials.
	TLS v1alpha1.SourceTLS
	// PolicySource is true if the address comes from a policy or from defaults, not from the operator's own
	// configuration. Such a server must not be on loopback, and no proxy is used (see usage.AllowedAddress). Its
	// failures have few sentences (see Failure).
	PolicySource bool
	// Addresses bound where the server of a PolicySource may be; nil: anywhere that usage.AllowedAddress permits.
	Addresses Addresses
	// Through carries the requests instead of a connection of the client's own; nil: the client connects to the
	// address. If set, TLS, BearerTokenFile and Addresses are ignored, and no address is checked.
	Through http.RoundTripper
	// Timeout of one request with its answer; 0: DefaultTimeout.
	Timeout time.Duration
	// MaxBytes of one answer, unpacked; 0: DefaultMaxBytes.
	MaxBytes int64
	// Now is the clock for the hourly checks of the server's data; nil: time.Now.
	Now func() time.Time
}

// Credentials are the values of the Secrets that a source names. All are empty if it names no Secrets.
type Credentials struct {
	// Password of Config.Username, or a token to send instead. If both are set, New returns an error.
	Password, BearerToken string
	// CA has the PEM certificates that verify the server, instead of the system's.
	CA []byte
}

// ConfigOf returns the Config of a source that a policy or the defaults name. The caller sets PolicySource and the
// limits.
func ConfigOf(source v1alpha1.PrometheusSource, credentials Credentials) Config {
	config := Config{
		Address:     source.Address,
		Headers:     source.Headers,
		Parameters:  source.QueryParameters,
		Credentials: credentials,
	}
	if source.BasicAuth != nil {
		config.Username = source.BasicAuth.Username
	}
	if source.TLS != nil {
		config.TLS = *source.TLS
	}
	return config
}

// base parses and checks the address, and removes a trailing /api/v1.
func (c Config) base() (*url.URL, error) {
	base, err := url.Parse(c.Address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the address of the usage source is not a URL: %w", WithoutURL(err))
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "":
		return nil, errors.New("the address of the usage source must be like http://prometheus.monitoring:9090")
	case base.User != nil:
		return nil, errors.New("the address of the usage source contains a user name or password: use basicAuth with a secret")
	case base.Fragment != "":
		return nil, errors.New("the address of the usage source has a part after #: remove it")
	}
	base.Path = strings.TrimSuffix(strings.TrimRight(base.Path, "/"), "/api/v1")
	return base, nil
}

// header returns the headers of every request, including the credentials. Headers that the transport sets itself are an
// error, because a policy could change the meaning of the request with them.
func (c Config) header() (http.Header, error) {
	header := http.Header{"User-Agent": {"attune"}}
	for name, value := range c.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) || reserved.Has(http.CanonicalHeaderKey(name)) {
			return nil, fmt.Errorf("the header %q of the usage source is reserved or not valid: use a header such as X-Scope-OrgID", name)
		}
		header.Set(name, value)
	}
	switch {
	case c.Username != "" && c.Credentials.BearerToken != "":
		return nil, errors.New("the usage source has both basicAuth and bearerTokenSecret: remove one")
	case c.Credentials.BearerToken != "":
		header.Set("Authorization", "Bearer "+strings.TrimSpace(c.Credentials.BearerToken))
	case c.Username != "":
		request := http.Request{Header: header}
		request.SetBasicAuth(c.Username, strings.TrimRight(c.Credentials.Password, "\r\n"))
	}
	if !httpguts.ValidHeaderFieldValue(header.Get("Authorization")) {
		return nil, errors.New("the bearer token of the usage source has characters that an HTTP header cannot contain: check the secret")
	}
	return header, nil
}

// reserved headers are set by the transport.
var reserved = sets.New("Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Accept-Encoding")

// tls returns the TLS settings. Only InsecureSkipVerify of the configuration disables the verification.
func (c Config) tls() (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.TLS.ServerName,
		InsecureSkipVerify: c.TLS.InsecureSkipVerify,
	}
	if len(c.Credentials.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(c.Credentials.CA) {
			return nil, errors.New("the CA secret of the usage source contains no certificate in PEM: check its key")
		}
	}
	return config, nil
}

// transport returns the connection settings. client-go reads the bearer token of a file again every minute.
func (c Config) transport() (http.RoundTripper, error) {
	if c.Through != nil {
		return c.Through, nil
	}
	tlsConfig, err := c.tls()
	if err != nil {
		return nil, err
	}
	// HTTP/1.1 alone: a server that a policy names is not trusted, and HTTP/2 is the larger part of the HTTP client.
	plain := &http.Transport{
		DialContext:            c.dial,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    2,
		MaxResponseHeaderBytes: 64 << 10,
	}
	// No proxy for a policy's server: a proxy resolves names itself, so the address could not be checked.
	if !c.PolicySource {
		plain.Proxy = http.ProxyFromEnvironment
	}
	if c.BearerTokenFile == "" {
		return plain, nil
	}
	return transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(c.BearerTokenFile))(plain), nil
}

// dial connects to an address if it is allowed. It checks each address after the name resolution: an earlier check could
// see an allowed address, and the name could resolve to another one a moment later (DNS rebinding). A name that cannot
// be allowed is not resolved.
func (c Config) dial(ctx context.Context, network, to string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(to)
	if c.bounded(host) && !slices.ContainsFunc(c.Addresses, isNetwork) {
		return nil, addressError{to}
	}
	dialer := net.Dialer{
		Timeout: 10 * time.Second,
		Control: func(_, to string, _ syscall.RawConn) error {
			if at, err := netip.ParseAddrPort(to); err != nil || !c.allows(host, at.Addr()) {
				return addressError{to}
			}
			return nil
		},
	}
	return dialer.DialContext(ctx, network, to)
}

// bounded reports whether only the networks of Addresses may have the server.
func (c Config) bounded(host string) bool {
	return c.PolicySource && len(c.Addresses) > 0 && !c.Addresses.name(host)
}

// allows reports whether the server may be at an address of its host.
func (c Config) allows(host string, ip netip.Addr) bool {
	return usage.AllowedAddress(ip, c.PolicySource) && (!c.bounded(host) || c.Addresses.contain(ip))
}

// Addresses are host names, such as prometheus.monitoring or *.monitoring.svc, IP addresses and networks in CIDR
// notation. Use ParseAddresses.
type Addresses []string

// ParseAddresses checks entries. The error names the first invalid one.
func ParseAddresses(entries []string) (Addresses, error) {
	for _, entry := range entries {
		if !isNetwork(entry) && len(validation.IsDNS1123Subdomain(strings.TrimPrefix(strings.ToLower(entry), "*."))) > 0 {
			return nil, fmt.Errorf("%q is not a host, such as prometheus.monitoring, nor a network, such as 10.0.0.0/8", entry)
		}
	}
	return entries, nil
}

// networkOf reads an entry that is a network or one IP address.
func networkOf(entry string) (netip.Prefix, bool) {
	if ip, err := netip.ParseAddr(entry); err == nil {
		return netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), true
	}
	network, err := netip.ParsePrefix(entry)
	return network, err == nil
}

func isNetwork(entry string) bool {
	_, is := networkOf(entry)
	return is
}

// name reports whether an entry names the host. The operator's owner vouches for the addresses of such a host.
func (a Addresses) name(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.ContainsFunc(a, func(entry string) bool {
		entry = strings.ToLower(entry)
		if domain, wild := strings.CutPrefix(entry, "*"); wild {
			return strings.HasSuffix(host, domain) && len(host) > len(domain)
		}
		return host == entry
	})
}

func (a Addresses) contain(ip netip.Addr) bool {
	return slices.ContainsFunc(a, func(entry string) bool {
		network, is := networkOf(entry)
		return is && network.Contains(ip.Unmap().WithZone(""))
	})
}

// addressError rejects an address that a name resolved to.
type addressError struct{ address string }

func (e addressError) Error() string {
	return fmt.Sprintf("the address %s is not allowed: a usage source must not be link-local or multicast, and the source of a policy must not be "+
		"loopback, and must be in usage.policySources.addresses if that is set", e.address)
}
