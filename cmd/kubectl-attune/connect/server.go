package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage/prometheus"
)

// mostAnswer limits the response of a server in bytes. A forwarded port carries one byte more, so the client can
// detect a response that was cut, and query again in parts.
const mostAnswer = MostAnswer - 1

// FetchPod is Fetch with the user's connection to the cluster.
type FetchPod func(ctx context.Context, namespace, pod string, port int, path string) (Answer, error)

// Server returns the client of a server with the Prometheus HTTP API. It reaches an address of a Service of the
// cluster (NAME.NAMESPACE, NAME.NAMESPACE.svc and so on) through one of its pods, and any other address from this
// machine. The user needs the rights to get the Service, to list its pods and to get and create pods/portforward.
//
// It returns an error for a source with headers or credentials, because the plugin reads no Secrets.
func Server(ctx context.Context, c client.Reader, fetch FetchPod, source v1alpha1.PrometheusSource, labels map[string]string) (*prometheus.Client, error) {
	if len(source.Headers) > 0 || source.BasicAuth != nil || source.BearerTokenSecret != nil {
		return nil, fmt.Errorf("the server %s needs headers or credentials, which the plugin does not send: run kubectl port-forward to its pod, and use --address http://localhost:PORT", source.Address)
	}
	config := prometheus.ConfigOf(source, prometheus.Credentials{})
	config.Labels, config.MaxBytes = labels, mostAnswer
	name, namespace, port, inside := serviceOf(source.Address)
	if !inside {
		return prometheus.New(config)
	}
	var service corev1.Service
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &service)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err) && !strings.Contains(source.Address, ".svc"):
		return prometheus.New(config) // for example prometheus.example, a name that is not a Service
	case err != nil:
		return nil, fmt.Errorf("reading the Service of %s: %w", source.Address, err)
	}
	pod, number, err := behind(ctx, c, &service, port)
	if err != nil {
		return nil, fmt.Errorf("cannot reach %s: %w; fix this, or use --address with a server that this machine reaches", source.Address, err)
	}
	config.Through = forwarded{fetch, namespace, pod, number}
	return prometheus.New(config)
}

// serviceOf parses the address of a Service; false if its host does not look like a Service.
func serviceOf(address string) (name, namespace string, port int32, ok bool) {
	base, err := url.Parse(address)
	if err != nil {
		return "", "", 0, false
	}
	parts := strings.Split(base.Hostname(), ".")
	if len(parts) < 2 || len(parts) > 2 && parts[2] != "svc" {
		return "", "", 0, false
	}
	port = 80
	if base.Scheme == "https" {
		port = 443
	}
	if given, err := strconv.ParseInt(base.Port(), 10, 32); err == nil {
		port = int32(given)
	}
	return parts[0], parts[1], port, true
}

// behind finds a running pod of a Service, and the pod's port for the Service's port.
func behind(ctx context.Context, c client.Reader, service *corev1.Service, port int32) (string, int, error) {
	at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if at < 0 || len(service.Spec.Selector) == 0 {
		return "", 0, fmt.Errorf("Service %s in namespace %s has no port %d that leads to pods", service.Name, service.Namespace, port)
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(service.Namespace), client.MatchingLabels(service.Spec.Selector)); err != nil {
		return "", 0, fmt.Errorf("listing its pods: %w", err)
	}
	for i := range pods.Items {
		if number := listens(&pods.Items[i], service.Spec.Ports[at]); number > 0 && pods.Items[i].Status.Phase == corev1.PodRunning {
			return pods.Items[i].Name, number, nil
		}
	}
	return "", 0, fmt.Errorf("no running pod of Service %s in namespace %s listens on port %d", service.Name, service.Namespace, port)
}

// listens returns the pod's port for a Service's port; 0 if it has none.
func listens(pod *corev1.Pod, port corev1.ServicePort) int {
	switch {
	case port.TargetPort == intstr.IntOrString{}:
		return int(port.Port)
	case port.TargetPort.Type == intstr.Int:
		return port.TargetPort.IntValue()
	}
	for _, container := range pod.Spec.Containers {
		for _, p := range container.Ports {
			if p.Name == port.TargetPort.StrVal {
				return int(p.ContainerPort)
			}
		}
	}
	return 0
}

// forwarded sends requests to a port of a pod.
type forwarded struct {
	fetch          FetchPod
	namespace, pod string
	port           int
}

// RoundTrip implements http.RoundTripper. It can only send GET. For another method it responds with 405 itself, as a
// read-only gateway does, and the client retries with GET.
func (f forwarded) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "http" {
		return nil, errors.New("the plugin forwards ports without TLS: use an address that starts with http://")
	}
	if request.Method != http.MethodGet {
		return answered(request, Answer{Status: http.StatusMethodNotAllowed}), nil
	}
	answer, err := f.fetch(request.Context(), f.namespace, f.pod, f.port, request.URL.RequestURI())
	if err != nil {
		return nil, fmt.Errorf("sending a request to pod %s in namespace %s: %w", f.pod, f.namespace, err)
	}
	return answered(request, answer), nil
}

func answered(request *http.Request, a Answer) *http.Response {
	return &http.Response{
		StatusCode: a.Status, Status: http.StatusText(a.Status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(a.Body)), ContentLength: int64(len(a.Body)), Request: request,
	}
}
