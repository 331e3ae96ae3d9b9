// Package prometheus asks any server that speaks the Prometheus HTTP API what containers used: Prometheus,
// Thanos, Mimir, VictoriaMetrics.
//
// The answer is decoded while it arrives, one series at a time. The client library's own range query would
// hold the whole answer three times (bytes, decoded, copied) and drop VictoriaMetrics' isPartial.
package prometheus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"k8s.io/client-go/transport"

	"attune.io/attune/api/v1alpha1"
)

// Defaults of a Config.
const (
	DefaultTimeout  = time.Minute
	DefaultMaxBytes = 256 << 20
	// PolicyMaxBytes is the most that an answer of a server may have that a policy names: what it takes in memory is all
	// tenants'. What is too much at once is asked for in parts.
	PolicyMaxBytes = 32 << 20
)

// Config says how a server is reached. Secrets are read by the caller.
type Config struct {
	// Address is the base URL, without the /api/v1 part.
	Address string
	// Headers and Parameters are sent with every request.
	Headers, Parameters map[string]string
	// Labels that every series has that is asked for, such as a cluster's.
	Labels map[string]string
	// Username with basic authentication; empty: none.
	Username    string
	Credentials Credentials
	// BearerTokenFile holds a token that is sent and may be replaced at any time: it is read again every minute. Empty: none.
	BearerTokenFile string
	TLS             TLS
	// PolicySource: the address comes from a policy, not from the operator's own configuration (see
	// Allowed).
	PolicySource bool
	// Timeout of one request with its answer; 0: DefaultTimeout.
	Timeout time.Duration
	// MaxBytes of one answer, unpacked; 0: DefaultMaxBytes.
	MaxBytes int64
}

// Credentials are the values of the secrets that a source names.
type Credentials struct {
	Password, BearerToken string
	// CA holds certificates in PEM that the server's own is verified with, instead of the system's.
	CA []byte
}

// TLS settings of the connection.
type TLS struct {
	// ServerName that the server's certificate is verified for, instead of the address's.
	ServerName string
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool
}

// ConfigOf is the Config of a source that a policy or the defaults name.
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
		config.TLS = TLS{ServerName: source.TLS.ServerName, InsecureSkipVerify: source.TLS.InsecureSkipVerify}
	}
	return config
}

// base is the checked address.
func (c Config) base() (*url.URL, error) {
	base, err := url.Parse(c.Address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the address of the usage source is not a URL: %w", withoutURL(err))
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "":
		return nil, errors.New("the address of the usage source must be like http://prometheus.monitoring:9090")
	case base.User != nil:
		return nil, errors.New("the address of the usage source holds a user name or password: use basicAuth with a secret")
	case base.Fragment != "":
		return nil, errors.New("the address of the usage source has a part after #: leave it out")
	}
	base.Path = strings.TrimSuffix(strings.TrimRight(base.Path, "/"), "/api/v1")
	return base, nil
}

// header is sent with every request.
func (c Config) header() (http.Header, error) {
	header := http.Header{"User-Agent": {"attune"}}
	for name, value := range c.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) || reserved(name) {
			return nil, fmt.Errorf("the header %q of the usage source cannot be sent: use a plain name such as X-Scope-OrgID", name)
		}
		header.Set(name, value)
	}
	switch {
	case c.Username != "" && c.Credentials.BearerToken != "":
		return nil, errors.New("the usage source has both basicAuth and bearerTokenSecret: leave one of them out")
	case c.Credentials.BearerToken != "":
		header.Set("Authorization", "Bearer "+strings.TrimSpace(c.Credentials.BearerToken))
	case c.Username != "":
		request := http.Request{Header: header}
		request.SetBasicAuth(c.Username, strings.TrimRight(c.Credentials.Password, "\r\n"))
	}
	if !httpguts.ValidHeaderFieldValue(header.Get("Authorization")) {
		return nil, errors.New("the bearer token of the usage source has characters that cannot be sent: check the secret")
	}
	return header, nil
}

// reserved headers belong to the transport.
func reserved(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Accept-Encoding":
		return true
	}
	return false
}

func (c Config) tls() (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.TLS.ServerName,
		InsecureSkipVerify: c.TLS.InsecureSkipVerify,
	}
	if len(c.Credentials.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(c.Credentials.CA) {
			return nil, errors.New("the CA secret of the usage source holds no certificate in PEM: check its key")
		}
	}
	return config, nil
}

// proxy of the environment is the operator's own business: through it, no address could be checked.
func (c Config) proxy() func(*http.Request) (*url.URL, error) {
	if c.PolicySource {
		return nil
	}
	return http.ProxyFromEnvironment
}

func (c Config) transport() (http.RoundTripper, error) {
	tlsConfig, err := c.tls()
	if err != nil {
		return nil, err
	}
	plain := &http.Transport{
		Proxy:                  c.proxy(),
		DialContext:            dialer(c.PolicySource).DialContext,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    2,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}
	if c.BearerTokenFile == "" {
		return plain, nil
	}
	return transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(c.BearerTokenFile))(plain), nil
}
