// Package connect connects to the cluster with the user's own rights:
//
//   - pod.go: Fetch requests a path from a pod, as kubectl port-forward does.
//   - ui.go: ShowUI shows the web page of the operator's leader on this machine.
//   - server.go: Server returns a client for the Prometheus HTTP API. It reaches a Service through one of its pods.
//   - usage.go: recent usage of workloads for a backtest. Stored unpacks the histories in an AttuneRecommendation
//     (usage.source: embedded). Asked queries a server for one workload, with the operator's expressions. A sample has
//     the highest value of all replicas, as in the operator. One workload is in memory at a time.
package connect

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	// Timeout limits the time of one request to a pod.
	Timeout = 15 * time.Second
	// MostAnswer limits the response of a pod in bytes. A decision about a node is smaller.
	MostAnswer = 32 << 20
)

// Answer is the HTTP response of a pod.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Line returns the first line of the body for a sentence. If that is empty or has more than 500 bytes, it returns the
// HTTP status, because another server may listen on that port and send anything.
func (a Answer) Line() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(a.Body)), "\n")
	if line == "" || len(line) > 500 {
		return fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status))
	}
	return line
}

// Fetch sends a GET to a port on a pod's loopback address, through the API server as kubectl port-forward does. It
// opens a port on this machine's loopback address for the duration of the request. It cuts the body at MostAnswer
// bytes.
//
// It needs the right to create pods/portforward in the namespace. Timeout limits the whole call.
func Fetch(ctx context.Context, config *rest.Config, namespace, pod string, port int, path string) (Answer, error) {
	ctx, stop := context.WithTimeout(ctx, Timeout)
	defer stop()
	dialer, err := dialerTo(config, namespace, pod)
	if err != nil {
		return Answer{}, err
	}
	log, ready, ended := reasons{funcr.New(func(string, string) {}, funcr.Options{}).GetSink(), make(chan error, 1)}, make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(klog.NewContext(ctx, logr.New(log)), dialer,
		[]string{"127.0.0.1"}, []string{":" + strconv.Itoa(port)}, ready, io.Discard, io.Discard)
	if err != nil {
		return Answer{}, err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	// Dialers take no context. ForwardPorts closes a connection that is established after its end.
	select {
	case <-ready:
	case err := <-ended:
		return Answer{}, err
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return Answer{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local)))+path, nil)
	if err != nil {
		return Answer{}, err
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		select {
		case why := <-log.refused:
			return Answer{}, why
		default:
			return Answer{}, err
		}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, MostAnswer))
	return Answer{response.StatusCode, response.Header, body}, err
}

// reasons captures the kubelet's reason why a port does not answer. The forwarder only logs it, before it closes the
// connection.
type reasons struct {
	logr.LogSink
	// refused has room for the first reason.
	refused chan error
}

// WithName implements logr.LogSink.
func (r reasons) WithName(string) logr.LogSink { return r }

// Error implements logr.LogSink.
func (r reasons) Error(err error, _ string, _ ...any) {
	select {
	case r.refused <- err:
	default:
	}
}

// dialerTo returns a dialer that connects to the pod over a websocket, or over SPDY for older API servers.
func dialerTo(config *rest.Config, namespace, pod string) (httpstream.Dialer, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	at := base.JoinPath("api/v1/namespaces", namespace, "pods", pod, "portforward")
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(at, config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	// API servers without websockets for port forwarding reject the upgrade, which triggers the fallback.
	older := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	return portforward.NewFallbackDialerForStreaming(websocket, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
