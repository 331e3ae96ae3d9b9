package main

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"attune.io/attune/usage/embedded"
)

// tokenSeconds is how long a token of the scraper lasts: the least that the API server issues. Whoever takes it from a
// node can read kubelets' metrics with it for so long, and nothing else.
const tokenSeconds = 600

// scraperTokens are what kubelets are shown, and never the operator's own token, which may resize every pod: a node that
// somebody broke into would have it within a minute. Nil where no ServiceAccount is named, as out of a cluster.
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

// tokenOf asks the API server for a token of one ServiceAccount.
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
