package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	nodeloop "attune.io/attune/controller/node"
	usageloop "attune.io/attune/controller/usage"
	"attune.io/attune/controller/workload"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/policy"
	"attune.io/attune/resize/climb"
	"attune.io/attune/usage"
	"attune.io/attune/usage/embedded"
	"attune.io/attune/usage/prometheus"
	"attune.io/attune/usage/recent"
)

// sources selects the usage source for settings: the operator's own, or the server that a policy or defaults name. All
// fields except clients are set once; clients has its own mutex.
type sources struct {
	// own is the operator's own source.
	own loopSource
	// server is the operator's Prometheus server. Without an address there is no server.
	server prometheusOptions
	// namespace is the operator's namespace. It has the Secrets of the operator's own source and of the cluster's
	// defaults.
	namespace string
	// secrets reads Secrets by name from the API server. They are not cached.
	secrets client.Reader
	// addresses bound where the servers of policies may be.
	addresses prometheus.Addresses
	// meter counts the requests to servers.
	meter *prometheus.Meter
	// logged has when the causes of failures were last logged; nil: they are not.
	logged *lru.Cache
	// clients caches the connections to servers for requests about observed pods and nodes.
	clients prometheus.Clients
	// turns are whose guardrails are evaluated.
	turns turns
	// largest is the largest known node, and facts returns what the caches know about a container. Samples that exceed
	// them are dropped.
	largest *board.Largest
	facts   func(namespace, pod, container string) usage.Facts
}

// newSources returns the sources. The operator's own source is the one that the flags select.
func newSources(mgr ctrl.Manager, c Config, m meters, b boards) (s *sources, err error) {
	pods := scrapedPods{mgr.GetClient(), c.watched.has}
	s = &sources{
		server: c.usage.prometheus, addresses: c.usage.policyAddresses, namespace: c.process.namespace, secrets: mgr.GetAPIReader(), meter: m.usage, largest: b.largest,
		clients: prometheus.NewClients(clock.RealClock{}), logged: lru.New(mostLogged), facts: pods.Facts,
	}
	s.own, err = sourceKinds[c.usage.source](mgr, c, m, s, tellers{pods, b.look})
	return s, err
}

// loopSource answers the queries of all loops. A new source implements it: see sourceKinds.
type loopSource interface {
	// dial returns the source of usage for a usage.Dialer, and gauge the source of signals of regressions. If a source
	// supports labels, both select series by the labels of the settings.
	dial(usage.SourceSettings) (usage.Source, error)
	gauge(usage.SourceSettings) (workload.Gauge, error)
	// climbs returns the source of recent memory usage. After an error, no memory is raised before an OOM kill.
	climbs() (workload.Climbs, error)
	// recentCPU returns recent CPU usage that is available without a request. known has earlier responses.
	recentCPU(known recent.Known) workload.RecentCPU
	// loads returns the load of nodes. Its error ends the process at its start.
	loads(interval time.Duration) (nodeloop.Loads, error)
	// forgets reports whether the source cannot return past usage, so that histories need checkpoints.
	forgets() bool
	// scraped returns how often the source measures; 0: it is not known.
	scraped() time.Duration
}

// tellers wake the workload loop for a pod. They find its workload in the caches.
type tellers struct {
	pods scrapedPods
	look news[types.NamespacedName]
}

// wakeWorkload wakes the loop for a pod's workload.
func (t tellers) wakeWorkload(ctx context.Context, pod embedded.Pod) {
	if name, known := t.pods.Recommendation(ctx, pod); known {
		t.look.tellIfRoom(name)
	}
}

// kubeletSource is the embedded source.
type kubeletSource struct {
	*embedded.Source
	servers  *sources
	interval time.Duration
}

// newKubeletSource returns the source that scrapes the kubelets. The manager runs it on the leader.
func newKubeletSource(mgr ctrl.Manager, c Config, m meters, s *sources, told tellers) (loopSource, error) {
	transport, err := embedded.Kubelets(mgr.GetConfig(), c.usage.kubelets, c.api.scraperTokens(c.process.namespace, c.usage.scraper))
	if err != nil {
		return nil, err
	}
	nodes, err := labels.Parse(c.usage.nodeSelector)
	if err != nil {
		return nil, err
	}
	own := embedded.New(embedded.Options{
		Cluster: scrapedNodes{told.pods, nodes}, Transport: transport, Interval: c.usage.interval, Clock: clock.RealClock{},
		Climb: &embedded.Climb{
			Limits: told.pods.Limits, Near: workload.Near, Tell: func(pod embedded.Pod) { told.wakeWorkload(context.Background(), pod) },
		},
		NodePressure: c.loops.nodeLoadTaint,
		Log:          slog.New(logr.ToSlogHandler(ctrl.Log.WithName("usage"))),
		Metrics:      m.embedded,
	})
	return kubeletSource{own, s, c.usage.interval}, mgr.Add(own)
}

// dial adds the operator's server, if it has one: the source starts with the first scrape, and the server provides the
// time before it.
func (k kubeletSource) dial(usage.SourceSettings) (usage.Source, error) {
	if k.servers.server.Address == "" {
		return k.Source, nil
	}
	past, err := k.servers.operators(nil)
	if err != nil {
		return nil, err
	}
	return usage.Backfilled{Source: k.Source, Since: k.Since, Past: prometheus.Metered{Client: past, Meter: k.servers.meter}}, nil
}

func (k kubeletSource) gauge(usage.SourceSettings) (workload.Gauge, error) { return k.Source, nil }
func (k kubeletSource) climbs() (workload.Climbs, error)                   { return k.Source, nil }
func (k kubeletSource) recentCPU(recent.Known) workload.RecentCPU          { return k.Source }
func (k kubeletSource) forgets() bool                                      { return true }
func (k kubeletSource) scraped() time.Duration                             { return k.interval }
func (k kubeletSource) loads(interval time.Duration) (nodeloop.Loads, error) {
	return prometheus.NewLoads(k.AskNodes, prometheus.ScopeOf(k.servers.server.Labels), interval), nil
}

// serverSource is a Prometheus server: the operator's own, or one that a policy or defaults name.
type serverSource struct {
	// near finds containers close to their memory limits; nil for a server that a policy or defaults name, because the
	// operator does not know which of its containers are close to their limits.
	near    *prometheus.Near
	servers *sources
}

// newServerSource returns the operator's own server, and adds the loop that queries it for containers close to their
// limits.
func newServerSource(mgr ctrl.Manager, _ Config, _ meters, s *sources, told tellers) (loopSource, error) {
	near := &prometheus.Near{
		Ask: s.askRange, Raised: told.pods.Raised, Scope: prometheus.ScopeOf(s.server.Labels),
		Noise: func(fraction float64) float64 { return climb.Noise(1-fraction, 1) },
	}
	return serverSource{near, s}, mgr.Add(&usageloop.NearLoop{Near: near, Clock: clock.RealClock{}, Tell: func(ctx context.Context, pod prometheus.NearPod) {
		told.wakeWorkload(ctx, embedded.Pod(pod))
	}})
}

func (p serverSource) dial(s usage.SourceSettings) (usage.Source, error)    { return p.servers.metered(s) }
func (p serverSource) gauge(s usage.SourceSettings) (workload.Gauge, error) { return p.servers.kept(s) }
func (p serverSource) recentCPU(known recent.Known) workload.RecentCPU      { return known }
func (p serverSource) forgets() bool                                        { return false }
func (p serverSource) scraped() time.Duration                               { return 0 }
func (p serverSource) climbs() (workload.Climbs, error) {
	if p.near == nil {
		return nil, errors.New("raising memory before an OOM kill needs the operator's own usage source")
	}
	return p.near, nil
}

func (p serverSource) loads(interval time.Duration) (nodeloop.Loads, error) {
	_, err := p.servers.operators(nil)
	return prometheus.NewLoads(p.servers.askNodes, prometheus.ScopeOf(p.servers.server.Labels), interval), err
}

// of returns the source of these settings.
func (s *sources) of(settings usage.SourceSettings) loopSource {
	if settings.Prometheus != nil {
		return serverSource{servers: s}
	}
	return s.own
}

// forgets reports whether histories with these settings need checkpoints.
func (s *sources) forgets(settings usage.SourceSettings) bool { return s.of(settings).forgets() }

// scraped returns how often the source of these settings measures; 0: it is not known.
func (s *sources) scraped(settings usage.SourceSettings) time.Duration {
	return s.of(settings).scraped()
}

// dropped counts samples that histories with these settings drop.
func (s *sources) dropped(settings usage.SourceSettings, counts map[usage.Drop]int) {
	source := sourcePrometheus
	if s.forgets(settings) {
		source = sourceEmbedded
	}
	s.meter.Dropped(source, counts)
}

// dial is a usage.Dialer. Its sources drop impossible samples.
func (s *sources) dial(settings usage.SourceSettings) (usage.Source, error) {
	source, err := s.of(settings).dial(settings)
	if err != nil {
		return nil, err
	}
	return s.judge().Wrap(source), nil
}

// judge returns what samples are checked against.
func (s *sources) judge() usage.Judge { return usage.Judge{Most: s.most, Of: s.facts} }

// most is the upper bound of samples on the largest known node.
func (s *sources) most() usage.Most { return usage.MostOn(s.largest.Node()) }

// gauge returns the source for observing pods with these settings. Queries of a namespace's guardrails read only what
// it may read.
func (s *sources) gauge(settings policy.Settings) (workload.Gauge, error) {
	gauge, err := s.of(settings.Source).gauge(settings.Source)
	if err != nil || settings.GuardrailScope.Namespace == "" {
		return gauge, err
	}
	confined := confinedGauge{Gauge: gauge, scope: settings.GuardrailScope, value: gauge.Value, turn: s.turns.of(settings.GuardrailScope.Namespace)}
	if scraped, is := gauge.(*embedded.Source); is { // its series have no labels of servers
		confined.value = scraped.ValueOfNamespace
		return confined, nil
	}
	if settings.Source.Prometheus == nil {
		confined.labels = s.server.Labels
	}
	return confined, nil
}

// confinedGauge evaluates the guardrails of a namespace on a source that the cluster's administrator has set.
type confinedGauge struct {
	workload.Gauge
	scope policy.QueryScope
	// labels that every selector must have, in addition to those of the scope.
	labels map[string]string
	value  func(ctx context.Context, query string, at time.Time) (float64, error)
	// turn is taken while a query of the namespace is evaluated.
	turn chan struct{}
}

// Value checks the query again: the settings may be older than a change of the limits.
func (g confinedGauge) Value(ctx context.Context, query string, at time.Time) (float64, error) {
	restricted, err := g.scope.Restrict(query, g.labels)
	if err != nil {
		return 0, fmt.Errorf("the query %w", err)
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return 0, fmt.Errorf("another guardrail of namespace %s is still evaluated: %w", g.scope.Namespace, ctx.Err())
	}
	return g.value(ctx, restricted, at)
}

// turns allows one query of a namespace at a time, so that its queries together use the memory of one.
type turns struct {
	mutex sync.Mutex
	known *lru.Cache
}

// mostTurns bounds the namespaces that turns knows. A namespace that is forgotten may have one more query.
const mostTurns = 10_000

// of returns a channel with room for one query of the namespace.
func (x *turns) of(namespace string) chan struct{} {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if x.known == nil {
		x.known = lru.New(mostTurns)
	}
	if turn, known := x.known.Get(namespace); known {
		return turn.(chan struct{})
	}
	turn := make(chan struct{}, 1)
	x.known.Add(namespace, turn)
	return turn
}

// climbs returns the source of recent memory usage for these settings.
func (s *sources) climbs(settings policy.Settings) (workload.Climbs, error) {
	return s.of(settings.Source).climbs()
}

// recently returns the source of the usage of the last minutes, without the past that a server adds to the embedded
// source. Its connection is the one of the gauge, and impossible samples are dropped.
func (s *sources) recently(settings policy.Settings) (usage.Source, error) {
	gauge, err := s.of(settings.Source).gauge(settings.Source)
	if err != nil {
		return nil, err
	}
	source, is := gauge.(usage.Source)
	if !is {
		return nil, errors.New("the usage source has no recent usage")
	}
	return s.judge().Wrap(source), nil
}

// askRange sends a range query to the operator's own server.
func (s *sources) askRange(ctx context.Context, expression string, query usage.Query, yield func(prometheus.Element)) (usage.Report, error) {
	server, err := s.kept(usage.SourceSettings{})
	if err != nil {
		return usage.Report{}, err
	}
	return server.Range(ctx, expression, query, yield)
}

// known returns recent CPU usage that is available without a request: scraped samples, or earlier responses of a
// server. nodes is nil if the load of nodes is not read. It must be compared with nil here: a nil *LoadLoop in the
// interface NodeUsage would not be nil.
func (s *sources) known(pods *recent.Store, nodes *nodeloop.LoadLoop) workload.RecentCPU {
	if nodes == nil {
		return s.own.recentCPU(recent.Known{Pods: pods})
	}
	return s.own.recentCPU(recent.Known{Pods: pods, Nodes: nodes})
}

// askNodes queries the operator's own server about all nodes. It looks up the client at each call, because a client
// that failed is replaced.
func (s *sources) askNodes(ctx context.Context, expression string, at time.Time) (map[string]float64, error) {
	server, err := s.kept(usage.SourceSettings{})
	if err != nil {
		return nil, err
	}
	return server.Nodes(ctx, expression, at)
}

// kept returns the cached client, or a new one (see prometheus.Clients).
func (s *sources) kept(settings usage.SourceSettings) (prometheus.Metered, error) {
	return s.clients.Of(settings.Digest(), func() (prometheus.Metered, error) { return s.metered(settings) })
}

// metered returns a client of the server that settings name, or of the operator's own. A client that fails removes
// itself from clients.
func (s *sources) metered(settings usage.SourceSettings) (prometheus.Metered, error) {
	c, err := s.connect(settings)
	return prometheus.Metered{
		Client: c, Meter: s.meter, Namespace: settings.Namespace, Failed: func(err error) {
			s.clients.Drop(settings.Digest(), c)
			s.logDetail(settings, err)
		},
	}, err
}

// detailEvery is how often the log repeats why a server does not answer.
const detailEvery = 10 * time.Minute

// mostLogged bounds the remembered causes.
const mostLogged = 256

// logDetail logs the cause of a failure that the policy's condition does not have (see prometheus.Failure). The same
// cause is not repeated within detailEvery.
func (s *sources) logDetail(settings usage.SourceSettings, err error) {
	failure, is := errors.AsType[*prometheus.Failure](err)
	if !is || failure.Detail() == failure.Error() || s.logged == nil {
		return
	}
	type cause struct {
		source usage.Digest
		detail string
	}
	now := time.Now()
	if at, known := s.logged.Get(cause{settings.Digest(), failure.Detail()}); known && now.Sub(at.(time.Time)) < detailEvery {
		return
	}
	s.logged.Add(cause{settings.Digest(), failure.Detail()}, now)
	ctrl.Log.WithName("usage").Info("The usage source of a policy failed", "namespace", settings.Namespace, "cause", failure.Detail())
}

// connect returns the client of a server. It reads Secrets in the policy's namespace, or in the operator's namespace
// for the cluster's defaults. A server that a policy names has limits: see Config.PolicySource.
func (s *sources) connect(settings usage.SourceSettings) (*prometheus.Client, error) {
	named := settings.Prometheus
	if named == nil {
		return s.operators(settings.Labels)
	}
	address, to := cmp.Or(named.Address, s.server.Address), receiver{}
	// A source of a namespace may only use Secrets that name its host. The operator's own source may use any.
	if settings.Namespace != "" {
		to = receiverOf(address, named.TLS)
	}
	credentials, err := readCredentials(s.secrets, cmp.Or(settings.Namespace, s.namespace), to, *named)
	if err != nil {
		return nil, err
	}
	config := prometheus.ConfigOf(*named, credentials)
	config.Address = address
	config.PolicySource = settings.OfPolicy || settings.Namespace != ""
	if config.PolicySource {
		config.MaxBytes, config.Addresses = prometheus.PolicyMaxBytes, s.addresses
	}
	config.Labels = settings.Labels
	if config.Address == "" {
		return nil, errors.New("metricsSource.prometheus has no address, and the operator has none: set metricsSource.prometheus.address")
	}
	return prometheus.New(config)
}

// operators returns a client of the operator's own server. The operator's matchers take precedence over a policy's
// labels: a policy can narrow its queries, and an attempt to widen them is an error.
func (s *sources) operators(labels map[string]string) (*prometheus.Client, error) {
	wanted := maps.Clone(s.server.Labels)
	// A label that contradicts the operator's matcher is an error. Otherwise the result would be empty and look like
	// no usage.
	for name, value := range labels {
		if own, known := wanted[name]; known && own != value {
			return nil, fmt.Errorf("metricsSource.labels.%s %q differs from the operator's own source: usage.prometheus.matchers.%s is %q", name, value, name, own)
		}
		if wanted == nil {
			wanted = map[string]string{}
		}
		wanted[name] = value
	}
	config := s.server.Config
	config.Labels = wanted
	// The client reads the file at each request. Check it here to find a wrong path at once.
	if file := config.BearerTokenFile; file != "" {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("reading --prometheus-bearer-token-file: %w", err)
		}
	}
	if file := s.server.caFile; file != "" {
		ca, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading --prometheus-ca-file: %w", err)
		}
		config.Credentials.CA = ca
	}
	return prometheus.New(config)
}

// secretTimeout limits the time to read the Secrets of one source.
const secretTimeout = 10 * time.Second

// receiver is the server that gets a Secret. The zero value is a server that may get any.
type receiver struct {
	// host has the port if the address has one. It is the name in the certificate if the source sets one, because
	// that is what the client verifies.
	host string
	// exposed: the connection is not encrypted, or the certificate is not verified. Then any server that answers for
	// the host gets the Secret, and so does any listener in between.
	exposed bool
}

// receiverOf returns the server at an address. An address that is not a URL has no host and gets no Secret.
func receiverOf(address string, tls *v1alpha1.SourceTLS) receiver {
	at, err := url.Parse(address)
	if err != nil || at.Host == "" {
		return receiver{host: "?", exposed: true}
	}
	set := ptr.Deref(tls, v1alpha1.SourceTLS{})
	if at.Scheme != "https" || set.InsecureSkipVerify {
		return receiver{host: at.Host, exposed: true}
	}
	return receiver{host: cmp.Or(set.ServerName, at.Host)}
}

// readCredentials reads the Secrets of a source from one namespace. If the receiver has a host, each Secret must name it
// (see madeFor). Without this rule, a user that may write policies but not read Secrets could send any Secret of the
// namespace to a server of their choice.
func readCredentials(secrets client.Reader, namespace string, to receiver, source v1alpha1.PrometheusSource) (prometheus.Credentials, error) {
	var out prometheus.Credentials
	ctx, cancel := context.WithTimeout(context.Background(), secretTimeout)
	defer cancel()
	var err error
	read := func(key *v1alpha1.SecretKey, to receiver) []byte {
		if key == nil || err != nil {
			return nil
		}
		var value []byte
		value, err = readSecret(ctx, secrets, namespace, to, *key)
		return value
	}
	out.BearerToken = strings.TrimSpace(string(read(source.BearerTokenSecret, to)))
	if source.BasicAuth != nil {
		out.Password = string(read(&source.BasicAuth.PasswordSecret, to))
	}
	if source.TLS != nil {
		out.CA = read(source.TLS.CASecret, receiver{host: to.host}) // it is not sent
	}
	return out, err
}

// readSecret reads one key of one Secret. Its errors name the object and the fix, never a value.
func readSecret(ctx context.Context, secrets client.Reader, namespace string, to receiver, key v1alpha1.SecretKey) ([]byte, error) {
	secret := &corev1.Secret{}
	err := secrets.Get(ctx, client.ObjectKey{Namespace: namespace, Name: key.Name}, secret)
	switch {
	case apierrors.IsForbidden(err) && to.host == "":
		return nil, fmt.Errorf("the operator may not read secret %s/%s of the usage source: add %s to the value usage.defaultsSecrets", namespace, key.Name, key.Name)
	case err != nil:
		return nil, fmt.Errorf("reading secret %s/%s of the usage source: %w", namespace, key.Name, err)
	}
	// Check this before reading the key.
	if to.host != "" && !madeFor(secret, to) {
		return nil, to.refuse(namespace + "/" + key.Name)
	}
	value, ok := secret.Data[key.Key]
	if !ok {
		return nil, fmt.Errorf("secret %s/%s has no key %q", namespace, key.Name, key.Key)
	}
	return value, nil
}

// refuse returns the error for a Secret that does not name the receiver.
func (r receiver) refuse(secret string) error {
	if r.exposed {
		return fmt.Errorf("secret %s may not be sent to the usage source %s without encryption and a verified certificate: use https:// and no tls.insecureSkipVerify, "+
			"or, to allow it, set the annotation %s: http://%s on the secret", secret, r.host, v1alpha1.UsageSourceAnnotation, r.host)
	}
	return fmt.Errorf("secret %s may not be used for the usage source %s: to allow it, set the annotation %s: %s on the secret",
		secret, r.host, v1alpha1.UsageSourceAnnotation, r.host)
}

// madeFor reports whether the annotation or the label attune.io/usage-source of a Secret names the host, with its
// port or for any port. A host, with https:// or without, stands for a verified connection; http:// permits any.
func madeFor(secret *corev1.Secret, to receiver) bool {
	name, _, err := net.SplitHostPort(to.host)
	if err != nil {
		name = to.host
	}
	saidBy := []string{secret.Annotations[v1alpha1.UsageSourceAnnotation], secret.Labels[v1alpha1.UsageSourceAnnotation]}
	return slices.ContainsFunc(saidBy, func(said string) bool {
		said, exposed := strings.CutPrefix(said, "http://")
		said = strings.TrimPrefix(said, "https://")
		return said != "" && (exposed || !to.exposed) && (strings.EqualFold(said, to.host) || strings.EqualFold(said, strings.Trim(name, "[]")))
	})
}

// tokenSeconds is the lifetime of a scraper token: the minimum of the API server. A token stolen from a node can read
// the kubelets' metrics for that time, and nothing more.
const tokenSeconds = 600

// scraperTokens returns the tokens for kubelets. The operator must not send its own token, which may resize every
// pod: an attacker on one node would have it within a minute. It returns nil if no ServiceAccount is set, for example
// outside a cluster.
func (a connection) scraperTokens(namespace, name string) *embedded.Tokens {
	if name == "" {
		return nil
	}
	return embedded.NewTokens(tokenOf(a.clients.CoreV1().ServiceAccounts(namespace), name), clock.RealClock{})
}

// tokenOf returns a function that requests a token of one ServiceAccount (TokenRequest).
func tokenOf(accounts corev1client.ServiceAccountInterface, name string) func(context.Context) (*oauth2.Token, error) {
	return func(ctx context.Context) (*oauth2.Token, error) {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenSeconds))}}
		answer, err := accounts.CreateToken(ctx, name, request, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("requesting a token of the ServiceAccount %s: %w", name, err)
		}
		return &oauth2.Token{AccessToken: answer.Status.Token, Expiry: answer.Status.ExpirationTimestamp.Time}, nil
	}
}

// evictionsAtOnce makes client-go return a 429 for an eviction at once. The API server sends 429 with a delay of ten
// seconds while a disruption budget is not processed, and client-go would retry ten times. That would block a worker
// for 100 seconds, and also delay the reverts of other workloads. The loops retry by themselves.
func evictionsAtOnce(next http.RoundTripper) http.RoundTripper {
	return promhttp.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil && answer.StatusCode == http.StatusTooManyRequests && strings.HasSuffix(r.URL.Path, "/eviction") {
			answer.Header.Del("Retry-After") // client-go retries only with this header
		}
		return answer, err
	})
}
