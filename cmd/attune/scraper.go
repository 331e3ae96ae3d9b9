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
