package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/controller/workload"
	"attune.io/attune/internal/policy"
	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

// secretTimeout bounds the reading of one Secret.
const secretTimeout = 10 * time.Second

// dialer makes a client of the server that settings name, or answers from the operator's own source. Secrets
// are read by name from the API server: nothing of them is cached.
func (o *options) dialer(secrets client.Reader) usage.Dialer {
	return func(s usage.SourceSettings) (usage.Source, error) {
		if s.Prometheus == nil && o.own != nil {
			return o.backfilled()
		}
		return o.server(secrets, s)
	}
}

// gauges makes what measures watched pods, with the same sources.
func (o *options) gauges(secrets client.Reader) func(policy.Settings) (workload.Gauge, error) {
	return func(s policy.Settings) (workload.Gauge, error) {
		if s.Source.Prometheus == nil && o.own != nil {
			return o.own, nil
		}
		server, err := o.kept(secrets, s.Source)
		return gauge{server}, err
	}
}

// gauge asks a Prometheus server about pods.
type gauge struct{ server measured }

func (g gauge) Throttled(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	return g.server.pods(ctx, "throttling", pods, at, func(pods []string) string { return g.server.Scope().Throttled(namespace, pods, window) })
}

func (g gauge) Waiting(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	return g.server.pods(ctx, "waiting", pods, at, func(pods []string) string { return g.server.Scope().Waiting(namespace, pods, window) })
}

func (g gauge) Memory(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	return g.server.pods(ctx, "memory", pods, at, func(pods []string) string { return g.server.Scope().Held(namespace, pods, window) })
}

func (g gauge) OOMKills(ctx context.Context, namespace string, windows map[string]time.Duration, at time.Time) (usage.ByContainer, error) {
	return g.server.since(ctx, "oomkills", windows, at, func(pods []string, window time.Duration) string {
		return g.server.Scope().Killed(namespace, pods, window)
	})
}

func (g gauge) Value(ctx context.Context, query string, at time.Time) (float64, error) {
	return g.server.value(ctx, "slo", query, at)
}

// kept is a client that was made before, or a new one; see clients.
func (o *options) kept(secrets client.Reader, s usage.SourceSettings) (measured, error) {
	return o.clients.of(s.Digest(), time.Now(), func() (measured, error) { return o.server(secrets, s) })
}

// server is a new client of the server that settings name, or of the operator's own.
func (o *options) server(secrets client.Reader, s usage.SourceSettings) (measured, error) {
	c, err := o.connect(secrets, s)
	return measured{Client: c, meter: o.meters.usage, namespace: s.Namespace, failed: func() { o.clients.drop(s.Digest(), c) }}, err
}

func (o *options) connect(secrets client.Reader, s usage.SourceSettings) (*prometheus.Client, error) {
	if s.Prometheus == nil {
		return o.ownServer(s.Labels)
	}
	namespace := s.Namespace
	if namespace == "" {
		namespace = o.namespace
	}
	address := cmp.Or(s.Prometheus.Address, o.prometheus.address)
	host := ""
	if s.Namespace != "" {
		host = hostOf(address)
	}
	credentials, err := readCredentials(secrets, namespace, host, *s.Prometheus)
	if err != nil {
		return nil, err
	}
	config := prometheus.ConfigOf(*s.Prometheus, credentials)
	config.Address = address
	config.PolicySource = s.OfPolicy || s.Namespace != ""
	if config.PolicySource {
		config.MaxBytes = prometheus.PolicyMaxBytes
	}
	config.Labels = s.Labels
	if config.Address == "" {
		return nil, errors.New("metricsSource.prometheus has no address, and the operator has none: set metricsSource.prometheus.address")
	}
	return prometheus.New(config)
}

// ownServer is that of the operator, whose labels go before a policy's: a policy narrows what it is told of, and does not
// look beside it.
func (o *options) ownServer(labels map[string]string) (*prometheus.Client, error) {
	wanted := maps.Clone(o.prometheus.matchers)
	for name, value := range labels {
		if own, known := wanted[name]; known && own != value {
			return nil, fmt.Errorf("metricsSource.labels.%s %q is not what the operator's own source is asked for: usage.prometheus.matchers.%s is %q", name, value, name, own)
		}
		if wanted == nil {
			wanted = map[string]string{}
		}
		wanted[name] = value
	}
	config := prometheus.Config{
		Address: o.prometheus.address, Headers: o.prometheus.headers, Parameters: o.prometheus.queryParameters, Labels: wanted,
		TLS:             prometheus.TLS{InsecureSkipVerify: o.prometheus.insecureSkipVerify},
		BearerTokenFile: o.prometheus.bearerTokenFile,
	}
	if file := o.prometheus.bearerTokenFile; file != "" {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("reading --prometheus-bearer-token-file: %w", err)
		}
	}
	if file := o.prometheus.caFile; file != "" {
		ca, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading --prometheus-ca-file: %w", err)
		}
		config.Credentials.CA = ca
	}
	return prometheus.New(config)
}

// hostOf an address, with its port where it has one.
func hostOf(address string) string {
	at, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return at.Host
}

// readCredentials from the Secrets of a namespace. Where a host is named, only Secrets that were made for it are read: else
// whoever may write policies could have any Secret of the namespace sent anywhere.
func readCredentials(secrets client.Reader, namespace, host string, source v1alpha1.PrometheusSource) (prometheus.Credentials, error) {
	var out prometheus.Credentials
	ctx, cancel := context.WithTimeout(context.Background(), secretTimeout)
	defer cancel()
	var err error
	read := func(key *v1alpha1.SecretKey) []byte {
		if key == nil || err != nil {
			return nil
		}
		var value []byte
		value, err = readSecret(ctx, secrets, namespace, host, *key)
		return value
	}
	out.BearerToken = strings.TrimSpace(string(read(source.BearerTokenSecret)))
	if source.BasicAuth != nil {
		out.Password = string(read(&source.BasicAuth.PasswordSecret))
	}
	if source.TLS != nil {
		out.CA = read(source.TLS.CASecret)
	}
	return out, err
}

func readSecret(ctx context.Context, secrets client.Reader, namespace, host string, key v1alpha1.SecretKey) ([]byte, error) {
	secret := &corev1.Secret{}
	err := secrets.Get(ctx, client.ObjectKey{Namespace: namespace, Name: key.Name}, secret)
	switch {
	case apierrors.IsForbidden(err) && host == "":
		return nil, fmt.Errorf("secret %s/%s of the usage source may not be read: add %s to the value usage.defaultsSecrets", namespace, key.Name, key.Name)
	case err != nil:
		return nil, fmt.Errorf("reading secret %s/%s of the usage source: %w", namespace, key.Name, err)
	}
	if host != "" && !madeFor(secret, host) {
		return nil, fmt.Errorf("secret %s/%s is not meant for the usage source %s: whoever may change the secret says so with the annotation %s: %s",
			namespace, key.Name, host, v1alpha1.UsageSourceAnnotation, host)
	}
	value, ok := secret.Data[key.Key]
	if !ok {
		return nil, fmt.Errorf("secret %s/%s has no key %q", namespace, key.Name, key.Key)
	}
	return value, nil
}

// madeFor: the Secret's annotation or label names the host, with its port or for any.
func madeFor(secret *corev1.Secret, host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	for _, said := range []string{secret.Annotations[v1alpha1.UsageSourceAnnotation], secret.Labels[v1alpha1.UsageSourceAnnotation]} {
		if said != "" && (strings.EqualFold(said, host) || strings.EqualFold(said, strings.Trim(name, "[]"))) {
			return true
		}
	}
	return false
}
