package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"attune.io/attune/certs"
	"attune.io/attune/internal/ports"
	"attune.io/attune/usage/embedded"
	promsource "attune.io/attune/usage/prometheus"
	"attune.io/attune/webhook/pod"
	"attune.io/attune/webhook/server"
)

const (
	// switchedOff is the address of a port that is not served.
	switchedOff = "0"
	// mostCallers are connections to a port at a time: a kubelet needs one, and each scraper another.
	mostCallers = 32
	// mostCallersHeader has room for a bearer token and what a scraper adds, in bytes.
	mostCallersHeader = 8 << 10
	// A request of a kubelet or a scraper is sent at once. An answer may be some MiB of metrics.
	callerReads, callerWrites, callerIdles = 5 * time.Second, 30 * time.Second, 90 * time.Second
	// callersEnd is what requests may take that are under way when the operator ends.
	callersEnd = 5 * time.Second
)

// probed is a manager whose probes are served within bounds. The manager's own server accepts any number of
// connections with a MiB of headers each.
type probed struct {
	// Manager is the real manager. All methods but two are its own.
	ctrl.Manager
	// healthy and ready are the checks by name.
	healthy, ready map[string]healthz.Checker
}

// AddHealthzCheck implements manager.Manager. It collects the check for listen.
func (p *probed) AddHealthzCheck(name string, check healthz.Checker) error {
	p.healthy[name] = check
	return nil
}

// AddReadyzCheck implements manager.Manager. It collects the check for listen.
func (p *probed) AddReadyzCheck(name string, check healthz.Checker) error {
	p.ready[name] = check
	return nil
}

// listen serves the probes that have been added so far.
func (p *probed) listen(address string, dropped *prometheus.CounterVec) error {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": p.healthy, "/readyz": p.ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	return addPort(p, "probes", address, mux, nil, dropped)
}

// serveMetrics serves /metrics: without TLS to every client or, with --metrics-secure, over TLS to the readers
// that the API server allows.
func serveMetrics(mgr ctrl.Manager, c Config, gatherer prometheus.Gatherer, m meters) error {
	handler := fewScrapes(promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	var secure *tls.Config
	if c.process.metricsSecure && c.process.metricsAddress != switchedOff {
		var err error
		if handler, err = onlyReaders(c.api, mgr.GetHTTPClient(), handler); err != nil {
			return err
		}
		if secure, err = ownCertificate(); err != nil {
			return err
		}
		m.certificates.add(certificateOfMetrics, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &secure.Certificates[0], nil })
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	return addPort(mgr, "metrics", c.process.metricsAddress, mux, secure, m.dropped)
}

// ownCertificate makes a certificate that no client can verify. It protects the readers' tokens from eavesdropping
// only.
func ownCertificate() (*tls.Config, error) {
	pair, err := certs.Own(time.Now(), "localhost")
	if err != nil {
		return nil, fmt.Errorf("making a certificate for the metrics: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{pair}}, nil
}

// addPort listens on an address and adds the server to the manager, unless the port is switched off. It listens at
// once, so that a port that is taken is an error before the operator starts.
func addPort(mgr ctrl.Manager, name, address string, handler http.Handler, secure *tls.Config, dropped *prometheus.CounterVec) error {
	if address == switchedOff {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening for %s: %w", name, err)
	}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	return mgr.Add(&manager.Server{Name: name, Listener: listener, ShutdownTimeout: ptr.To(callersEnd), Server: callers(handler, dropped.WithLabelValues(name))})
}

// callers makes a server with the limits of this file.
func callers(handler http.Handler, dropped prometheus.Counter) *http.Server {
	return ports.New(ports.Options{
		Handler:     handler,
		Connections: &ports.Connections{Most: mostCallers, Dropped: dropped.Inc},
		Read:        callerReads, Write: callerWrites, Idle: callerIdles,
		Header: mostCallersHeader,
	})
}

// mostScrapes of the metrics at once: a scrape writes a series for every container, under a lock that the loops need.
const mostScrapes = 2

// fewScrapes limits the scrapes that run at the same time. A further one is answered with 503 at once.
func fewScrapes(handler http.Handler) http.Handler {
	turns := make(chan struct{}, mostScrapes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
			handler.ServeHTTP(w, r)
		default:
			http.Error(w, "two scrapes are under way: try again", http.StatusServiceUnavailable)
		}
	})
}

// meters holds the metrics of what this package makes; the loops register their own.
type meters struct {
	// admission is nil where no webhook is served.
	admission *pod.Metrics
	// webhooks counts reviews that the server refused; nil where no webhook is served.
	webhooks *server.Metrics
	// usage is nil where nothing is measured.
	usage *promsource.Meter
	// embedded is nil where a server is asked instead.
	embedded *embedded.Metrics
	// dropped connections to the ports of the metrics and of the probes.
	dropped *prometheus.CounterVec
	// certificates that are served.
	certificates *expiries
}

// newMeters registers the metrics of what the program does. It panics where one of them is registered already.
func newMeters(o *Options, registry prometheus.Registerer) (m meters) {
	m.dropped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_connections_dropped_total",
		Help: "Connections to the ports of the metrics and the probes that were closed for others.",
	}, []string{"port"})
	m.certificates = newExpiries()
	registry.MustRegister(m.dropped, m.certificates)
	if o.program.serves {
		m.admission, m.webhooks = pod.NewMetrics(registry), server.NewMetrics(registry)
	}
	if o.program.controls {
		m.usage = promsource.NewMeter(registry)
		if o.usage.source == sourceEmbedded {
			m.embedded = embedded.NewMetrics(registry, m.usage)
		}
	}
	return m
}
