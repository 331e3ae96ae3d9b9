// Package connect reaches into the cluster with the user's own rights:
//
//   - pod.go: Fetch asks a pod for a path, as kubectl port-forward does.
//   - ui.go: ShowUI shows the web page of the operator's leader on this machine.
//   - server.go: Server reaches a server with the Prometheus HTTP API, through a pod of its Service where it has one.
//   - usage.go: what the containers of workloads used lately, so that a backtest can replay it. Stored unpacks the histories
//     that an AttuneRecommendation keeps (usage.source: embedded), Asked asks a server for one workload, by the expressions
//     that the operator uses. A step's value is the highest of all replicas, as in the operator. One workload is in memory
//     at a time.
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
	// Timeout is how long a pod may take to answer.
	Timeout = 15 * time.Second
	// MostAnswer is more than a node's answer takes, in bytes.
	MostAnswer = 32 << 20
)

// Answer is what a pod answers.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Line is the first line of an answer, for a sentence; of an empty one, or with more than 500 bytes, the HTTP status: another
// server may listen on that port and send anything.
func (a Answer) Line() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(a.Body)), "\n")
	if line == "" || len(line) > 500 {
		return fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status))
	}
	return line
}

// Fetch sends a GET to a port on a pod's loopback address, through the API server as kubectl port-forward does: by a port of
// this machine's loopback address that is open while it waits. The body is cut off at MostAnswer bytes.
//
// It needs the right to create pods/portforward in the namespace. Timeout bounds all of it.
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
	// Dialers take no context: a connection that comes after its end is closed by ForwardPorts.
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

// reasons takes the kubelet's reason why a port does not answer. The forwarder logs it before it closes the connection, and
// returns it nowhere.
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

// dialerTo connects to the pod over a websocket, or else over SPDY, which older API servers need.
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
	// API servers before websockets for port forwarding answer the upgrade with an error, which leads to the
	// fallback.
	older := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	return portforward.NewFallbackDialerForStreaming(websocket, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
