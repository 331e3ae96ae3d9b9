package e2e

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scrapers is where ServiceAccounts of this name may read the operator's metrics.
const scrapers = "default"

// mayScrape makes a ServiceAccount that may read the operator's metrics.
func mayScrape(ctx context.Context, name string) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    clusterRole("attune-metrics-reader"),
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: scrapers, Name: name}},
	}
	if err := account(ctx, name); err != nil {
		return err
	}
	return ignoreExists(env.client.Create(ctx, binding))
}

// account makes a ServiceAccount without rights.
func account(ctx context.Context, name string) error {
	return ignoreExists(env.client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: scrapers, Name: name}}))
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// metricsOf a pod of the operator, as a ServiceAccount reads them; empty: nobody.
func metricsOf(ctx context.Context, pod *corev1.Pod, who string) (status int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort(pod.Status.PodIP, "8080")+"/metrics", nil)
	if err != nil {
		return 0, "", err
	}
	if who != "" {
		token := &authenticationv1.TokenRequest{}
		reader := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: scrapers, Name: who}}
		if err := env.client.SubResource("token").Create(ctx, reader, token, &client.SubResourceCreateOptions{}); err != nil {
			return 0, "", err
		}
		request.Header.Set("Authorization", "Bearer "+token.Status.Token)
	}
	transport := &http.Transport{DialContext: env.cluster.Dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // its certificate is of its own making
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}
