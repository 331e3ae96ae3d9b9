// Package askpod sends a request to a port of a pod's loopback address, as kubectl port-forward does, and with the user's
// own rights. Start reading with Fetch.
package askpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
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

// Fetch sends a GET to a port on a pod's loopback address, through the API server as kubectl port-forward does.
// It opens no port on the user's machine. The body is cut off at MostAnswer bytes.
//
// It needs the right to create pods/portforward in the namespace. Timeout bounds all of it.
func Fetch(ctx context.Context, config *rest.Config, namespace, pod string, port int, path string) (Answer, error) {
	ctx, stop := context.WithTimeout(ctx, Timeout)
	defer stop()
	connection, err := forward(ctx, config, namespace, pod)
	if err != nil {
		return Answer{}, err
	}
	// To close the connection ends its streams too.
	defer func() { _ = connection.Close() }()
	// Streams know no deadlines, so the end of the context closes the connection under them.
	stopClosing := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stopClosing()
	refused := make(chan string, 1)
	// The HTTP client believes that it dials localhost. It gets a stream to the pod's port.
	through := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return open(connection, port, refused)
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort("localhost", strconv.Itoa(port))+path, nil)
	if err != nil {
		return Answer{}, err
	}
	response, err := through.RoundTrip(request)
	if err != nil {
		return Answer{}, cmp.Or(refusal(refused), err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, MostAnswer))
	return Answer{response.StatusCode, response.Header, body}, err
}

// refusal returns the kubelet's reason why the port did not answer; nil where none comes within a second.
func refusal(refused <-chan string) error {
	select {
	case why := <-refused:
		if why != "" {
			return errors.New(strings.TrimSpace(why))
		}
	case <-time.After(time.Second):
	}
	return nil
}

// forward connects to the pod over a websocket, or else over SPDY, which older API servers need.
// The API server connects to the kubelet, and the kubelet to the pod's network namespace: this is how a loopback
// address of the pod is reached.
func forward(ctx context.Context, config *rest.Config, namespace, pod string) (httpstream.Connection, error) {
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
	return dial(ctx, portforward.NewFallbackDialerForStreaming(websocket, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}))
}

// dial dials and returns when the context ends, although the dialers take no context. A connection that comes
// later is closed.
func dial(ctx context.Context, dialer httpstream.Dialer) (httpstream.Connection, error) {
	type dialled struct {
		connection httpstream.Connection
		err        error
	}
	// It has room for the result, so the goroutine ends also where nothing waits for it.
	done := make(chan dialled, 1)
	go func() {
		connection, protocol, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		if err == nil && protocol != portforward.PortForwardProtocolV1Name {
			_ = connection.Close()
			err = fmt.Errorf("the API server forwards ports by %q, which is not known here", protocol)
		}
		done <- dialled{connection, err}
	}()
	select {
	case d := <-done:
		return d.connection, d.err
	case <-ctx.Done():
		go func() {
			if d := <-done; d.err == nil {
				_ = d.connection.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// open opens a stream to a port of the pod. The error stream comes first, as the protocol demands. Its text, or
// "", is sent to refused, which must have room for it.
func open(connection httpstream.Connection, port int, refused chan<- string) (net.Conn, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	failed, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	_ = failed.Close() // Nothing is written to it.
	go func() {
		why, _ := io.ReadAll(failed)
		refused <- string(why)
	}()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	return stream{data}, nil
}

// stream makes a net.Conn of a forwarded stream. Deadlines have no effect: to end it, the connection is closed.
type stream struct{ httpstream.Stream }

// The addresses are empty and the deadlines ignored: the HTTP client asks for them and uses neither here.
func (stream) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (stream) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (stream) SetDeadline(time.Time) error      { return nil }
func (stream) SetReadDeadline(time.Time) error  { return nil }
func (stream) SetWriteDeadline(time.Time) error { return nil }
