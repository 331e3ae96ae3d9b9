package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
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
	// switchedOff is the address of a disabled port.
	switchedOff = "0"
	// mostCallers limits the concurrent connections to a port. A kubelet needs one, and each scraper one.
	mostCallers = 32
	// mostCallersHeader is the maximum size of headers in bytes. It is enough for a bearer token and a scraper's
	// headers.
	mostCallersHeader = 8 << 10
	// Kubelets and scrapers send a request at once. The response may have some MiB of metrics.
	callerReads, callerWrites, callerIdles = 5 * time.Second, 30 * time.Second, 90 * time.Second
	// callersEnd is the time for requests in flight when the operator stops.
	callersEnd = 5 * time.Second
)

// probed is a manager that serves probes within limits. The manager's own server accepts any number of connections
// with 1 MiB of headers each.
type probed struct {
	// Manager is the real manager. All methods except two come from it.
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

// listen serves the checks that were added before the call.
func (p *probed) listen(address string, dropped *prometheus.CounterVec) error {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": p.healthy, "/readyz": p.ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	return addPort(p, "probes", address, mux, nil, dropped)
}

// serveMetrics serves /metrics without TLS to every client. With --metrics-secure it serves over TLS, and only to
// clients that the API server allows.
func serveMetrics(mgr ctrl.Manager, c Config, gatherer prometheus.Gatherer, m meters) error {
	handler := ports.AtMost(mostScrapes, promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}),
		http.StatusServiceUnavailable, "two scrapes are in progress: try again")
	var secure *tls.Config
	if c.process.metricsSecure && c.process.metricsAddress != switchedOff {
		handler = newReaders(c.api.clients, clock.RealClock{}, c.process.metricsAudience).only(ctrl.Log.WithName("metrics"), handler)
		var err error
		if secure, err = ownCertificate(); err != nil {
			return err
		}
		m.certificates.of[certificateOfMetrics] = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &secure.Certificates[0], nil }
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	return addPort(mgr, "metrics", c.process.metricsAddress, mux, secure, m.dropped)
}

// ownCertificate returns a certificate that no client can verify. It only protects tokens from eavesdropping.
func ownCertificate() (*tls.Config, error) {
	pair, err := certs.Own(time.Now(), "localhost")
	if err != nil {
		return nil, fmt.Errorf("creating a certificate for the metrics: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{pair}}, nil
}

// addPort listens on an address and adds the server to the manager, unless the port is disabled. It listens at once,
// so that a port in use is an error before the operator starts.
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

// callers returns a server with the limits of this file.
func callers(handler http.Handler, dropped prometheus.Counter) *http.Server {
	return ports.New(ports.Options{
		Handler:     handler,
		Connections: &ports.Connections{Most: mostCallers, Dropped: dropped.Inc},
		Read:        callerReads, Write: callerWrites, Idle: callerIdles,
		Header: mostCallersHeader,
	})
}

// mostScrapes limits the concurrent scrapes. A scrape writes a series for every container, under a lock that the
// loops need.
const mostScrapes = 2

// meters has the metrics of this package and of the parts that it creates. The loops register their own.
type meters struct {
	// admission is nil if the program does not serve webhooks.
	admission *pod.Metrics
	// webhooks counts reviews that the server rejected; nil if the program does not serve webhooks.
	webhooks *server.Metrics
	// usage is nil if the program does not run the loops.
	usage *promsource.Meter
	// embedded is nil if the usage source is a Prometheus server.
	embedded *embedded.Metrics
	// dropped counts the closed connections to the ports of metrics and probes.
	dropped *prometheus.CounterVec
	// certificates has the certificates that are served.
	certificates *expiries
}

// newMeters registers the metrics of the program. It panics if one of them is registered already.
func newMeters(o *Options, registry prometheus.Registerer) (m meters) {
	m.dropped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_connections_dropped_total",
		Help: "Connections to the metrics and probe ports that were closed to make room for others, by port.",
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

// In short: verdicts are kept for a minute, up to 4096 accepted and 4096 rejected tokens are known, and made-up
// tokens cost the API server two requests a second after an initial burst.
const (
	// judgedFor is how long a verdict on a token is valid. The API server caches its token webhooks' verdicts equally
	// long.
	judgedFor = time.Minute
	// judgedAtMost is how long a positive verdict is valid while the API server cannot be asked.
	judgedAtMost = 10 * time.Minute
	// mostJudged limits the known tokens. It exceeds the tokens that the rate limits admit within judgedAtMost,
	// 2 × (10 + 2 × 600), so that a client with many tokens does not evict another one.
	mostJudged = 4096
	// askedEach and askedAtOnce are the rate per second and the burst of checks, so that made-up tokens do not load
	// the API server. There are three rate limits: unknown tokens, unknown tokens from an address with a recent valid
	// one (a scraper's token is replaced each hour), and tokens that were valid before.
	askedEach, askedAtOnce = 2, 10
	// askedWithin limits the two requests to the API server together.
	askedWithin = 5 * time.Second
)

// readers lets a client read the metrics only if the API server authenticates its bearer token and allows its user
// to get the path /metrics. It caches verdicts, so that most scrapes need no request to the API server.
type readers struct {
	// api sends TokenReviews and SubjectAccessReviews.
	api   kubernetes.Interface
	clock clock.PassiveClock
	// audiences of which a token must have one; nil: those of the API server.
	audiences []string
	// These are rate limits on requests to the API server: asks for unknown tokens, nearby for unknown tokens from an
	// address with a recent valid token, again for tokens that were valid before. They are separate, so that a flood
	// of made-up tokens does not lock out a scraper.
	asks, nearby, again flowcontrol.RateLimiter
	// passed and refused hold the last verdicts by the hash of the token, so that a memory dump has no tokens. They
	// are separate, because made-up tokens must not evict valid ones. letIn has the time of the last valid token by
	// address. Each keeps the mostJudged entries that were used last.
	passed, refused, letIn *lru.Cache
}

// verdict is the HTTP status for a token, and the time of the check.
type verdict struct {
	// status is 200, 401 or 403.
	status int
	at     time.Time
}

// newReaders returns a readers without verdicts. An empty audience is that of the API server. Each of the three rate
// limits has its own bucket.
func newReaders(api kubernetes.Interface, c clock.PassiveClock, audience string) *readers {
	few := func() flowcontrol.RateLimiter { return flowcontrol.NewTokenBucketRateLimiter(askedEach, askedAtOnce) }
	var audiences []string
	if audience != "" {
		audiences = []string{audience}
	}
	return &readers{api: api, clock: c, audiences: audiences, asks: few(), nearby: few(), again: few(), passed: lru.New(mostJudged), refused: lru.New(mostJudged), letIn: lru.New(mostJudged)}
}

// only passes requests with a valid token to handler, and rejects all others with 401, 403, 429 or 503. The check
// precedes the limit on concurrent scrapes (ports.AtMost), so that other clients cannot use up that limit.
func (x *readers) only(log logr.Logger, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !found || token == "" {
			http.Error(w, "reading metrics requires the bearer token of a user that may get /metrics", http.StatusUnauthorized)
			return
		}
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		switch status := x.judge(r.Context(), log, token, from); status {
		case http.StatusOK:
			x.letIn.Add(from, x.clock.Now())
			handler.ServeHTTP(w, r)
		default:
			http.Error(w, http.StatusText(status), status)
		}
	})
}

// judge returns the HTTP status for a token from an address; 200 lets it in. A verdict is valid for judgedFor. A
// positive verdict is valid for judgedAtMost while the API server cannot be asked, so that metrics stay readable in an
// outage.
func (x *readers) judge(ctx context.Context, log logr.Logger, token, from string) int {
	// Use the absolute age: after the clock was set back, verdicts must not stay valid for ever.
	key, now := sha256.Sum256([]byte(token)), x.clock.Now()
	last := x.known(key)
	age := now.Sub(last.at).Abs()
	if age < judgedFor {
		return last.status
	}
	inFavour := last.status == http.StatusOK && age < judgedAtMost
	// The rate limit of a token depends on its last verdict and its address.
	asks := x.asks
	switch {
	case inFavour:
		asks = x.again
	case x.wasLetIn(from):
		asks = x.nearby
	}
	if !asks.TryAccept() {
		if inFavour {
			return last.status
		}
		return http.StatusTooManyRequests
	}
	ctx, cancel := context.WithTimeout(ctx, askedWithin)
	defer cancel()
	status, err := x.reviewToken(ctx, token)
	if err != nil {
		log.Error(err, "Cannot check who may read the metrics")
		if inFavour {
			return last.status
		}
		return http.StatusServiceUnavailable
	}
	if status == http.StatusOK {
		x.passed.Add(key, verdict{status, now})
		return status
	}
	x.passed.Remove(key)
	x.refused.Add(key, verdict{status, now})
	return status
}

// reviewToken lets the API server authenticate a token (TokenReview) and check that its user may read /metrics
// (SubjectAccessReview).
func (x *readers) reviewToken(ctx context.Context, token string) (int, error) {
	review, err := x.api.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: x.audiences}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("reviewing a token: %w", err)
	}
	// An authenticator that does not know audiences answers without any.
	if shared := sets.New(review.Status.Audiences...).HasAny(x.audiences...); !review.Status.Authenticated || len(x.audiences) > 0 && !shared {
		return http.StatusUnauthorized, nil
	}
	// Pass on all attributes of the token's user, as the API server itself would.
	user := review.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	access, err := x.api.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return 0, fmt.Errorf("reviewing the access of %s: %w", user.Username, err)
	case !access.Status.Allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// known returns the last verdict on a token, or the zero value.
func (x *readers) known(key [sha256.Size]byte) verdict {
	found, ok := x.passed.Get(key)
	if !ok {
		found, _ = x.refused.Get(key)
	}
	last, _ := found.(verdict)
	return last
}

// wasLetIn reports whether a valid token came from an address within judgedAtMost.
func (x *readers) wasLetIn(from string) bool {
	at, ok := x.letIn.Get(from)
	return ok && x.clock.Since(at.(time.Time)).Abs() < judgedAtMost
}
