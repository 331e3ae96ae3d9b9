package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage/embedded"
	"attune.io/attune/usage/prometheus"
)

// secretTimeout bounds the reading of one Secret.
const secretTimeout = 10 * time.Second

// hostOf returns the host of an address, with its port where it has one; empty for an address that is no URL.
func hostOf(address string) string {
	at, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return at.Host
}

// readCredentials reads the Secrets that a source names, from one namespace. Where host is given, each Secret must
// name that host (see madeFor). Without that rule, a user who may write policies but not read Secrets could send
// any Secret of the namespace to a server of his own.
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

// readSecret reads one key of one Secret. Its errors name the object and what to change, never a value.
func readSecret(ctx context.Context, secrets client.Reader, namespace, host string, key v1alpha1.SecretKey) ([]byte, error) {
	secret := &corev1.Secret{}
	err := secrets.Get(ctx, client.ObjectKey{Namespace: namespace, Name: key.Name}, secret)
	switch {
	case apierrors.IsForbidden(err) && host == "":
		return nil, fmt.Errorf("secret %s/%s of the usage source may not be read: add %s to the value usage.defaultsSecrets", namespace, key.Name, key.Name)
	case err != nil:
		return nil, fmt.Errorf("reading secret %s/%s of the usage source: %w", namespace, key.Name, err)
	}
	// The key is not read before this check.
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

// madeFor returns whether the annotation or the label attune.io/usage-source of a Secret names the host, with its
// port or for any port.
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

// tokenSeconds is how long a token of the scraper is valid: the least that the API server issues. A token that was
// stolen from a node can read kubelets' metrics for so long, and nothing else.
const tokenSeconds = 600

// scraperTokens returns the tokens that kubelets receive. The operator's own token must not be sent, since it may
// resize every pod: an attacker on one node would have it within a minute. It is nil where no ServiceAccount is
// named, as outside of a cluster.
func scraperTokens(config *rest.Config, namespace, name string) (*embedded.Tokens, error) {
	if name == "" {
		return nil, nil
	}
	clients, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return embedded.NewTokens(tokenOf(clients.ServiceAccounts(namespace), name), clock.RealClock{}), nil
}

// tokenOf returns a function that requests a token of one ServiceAccount (TokenRequest).
func tokenOf(accounts corev1client.ServiceAccountInterface, name string) func(context.Context) (embedded.Token, error) {
	return func(ctx context.Context) (embedded.Token, error) {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenSeconds))}}
		answer, err := accounts.CreateToken(ctx, name, request, metav1.CreateOptions{})
		if err != nil {
			return embedded.Token{}, fmt.Errorf("asking for a token of the ServiceAccount %s: %w", name, err)
		}
		return embedded.Token{Value: answer.Status.Token, Ends: answer.Status.ExpirationTimestamp.Time}, nil
	}
}

// evictionsAtOnce makes a 429 to an eviction an error at once. The API server answers 429 with ten seconds to wait
// while a disruption budget has not been looked at, and client-go would wait and retry ten times: a worker would
// stand still for 100 seconds, and with it the reverts of other workloads. The loops retry by themselves.
func evictionsAtOnce(next http.RoundTripper) http.RoundTripper { return atOnce{next} }

// atOnce is the transport that evictionsAtOnce returns.
type atOnce struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper. Without the header Retry-After, client-go does not retry a 429.
func (a atOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.next.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusTooManyRequests && strings.HasSuffix(r.URL.Path, "/eviction") {
		answer.Header.Del("Retry-After")
	}
	return answer, err
}
