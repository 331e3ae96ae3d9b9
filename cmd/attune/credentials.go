package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
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
