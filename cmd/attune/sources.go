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
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
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

// sources chooses the usage source for settings: the operator's own one, or the server that a policy or defaults
// name. All fields but clients are set once; clients has a mutex of its own.
type sources struct {
	// own is the embedded source; nil where the operator's own source is a Prometheus server.
	own *embedded.Source
	// server is the operator's Prometheus server; without an address there is none.
	server prometheusOptions
	// namespace of the operator, where the Secrets are of its own source and of the cluster's defaults.
	namespace string
	// secrets reads Secrets by name from the API server. Nothing of them is cached.
	secrets client.Reader
	// meter counts the questions to servers.
	meter *prometheus.Meter
	// near knows which containers are close to their memory limits, by the operator's own server; nil: the embedded source does.
	near *prometheus.Near
	// clients keeps the connections to the servers that are asked about watched pods and nodes.
	clients prometheus.Clients
	// largest node that is known: samples of more are dropped.
	largest *board.Largest
}

// newSources makes the sources. Where the flags choose the embedded source, the manager runs it on the leader.
func newSources(mgr ctrl.Manager, c Config, m meters, b boards) (*sources, error) {
	s := &sources{
		server: c.usage.prometheus, namespace: c.process.namespace, secrets: mgr.GetAPIReader(), meter: m.usage, largest: b.largest,
		clients: prometheus.NewClients(clock.RealClock{}),
	}
	told := tellers{scrapedPods{mgr.GetClient(), c.watched.has}, b.look}
	if c.usage.source != sourceEmbedded {
		s.near = &prometheus.Near{
			Ask: s.askRange, Raised: told.pods.Raised, Scope: prometheus.ScopeOf(s.server.Labels),
			Noise: func(fraction float64) float64 { return climb.Noise(1-fraction, 1) },
		}
		return s, mgr.Add(&usageloop.NearLoop{Near: s.near, Clock: clock.RealClock{}, Tell: func(ctx context.Context, pod prometheus.NearPod) {
			told.tell(ctx, embedded.Pod(pod))
		}})
	}
	var err error
	if s.own, err = newEmbedded(mgr, c, m.embedded, told); err != nil {
		return nil, err
	}
	return s, mgr.Add(s.own)
}

// newEmbedded makes the source that scrapes the kubelets.
func newEmbedded(mgr ctrl.Manager, c Config, m *embedded.Metrics, told tellers) (*embedded.Source, error) {
	transport, err := embedded.Kubelets(mgr.GetConfig(), c.usage.kubelets, c.api.scraperTokens(c.process.namespace, c.usage.scraper))
	if err != nil {
		return nil, err
	}
	return embedded.New(embedded.Options{
		Cluster: told.pods, Transport: transport, Interval: c.usage.interval, Clock: clock.RealClock{},
		Climb: &embedded.Climb{
			Limits: told.pods.Limits, Near: workload.Near, Tell: func(pod embedded.Pod) { told.tell(context.Background(), pod) },
		},
		NodePressure: c.loops.nodeLoadTaint,
		Log:          slog.New(logr.ToSlogHandler(ctrl.Log.WithName("usage"))),
		Metrics:      m,
	}), nil
}

// tellers wake the workload loop for pods, by what the caches know of them.
type tellers struct {
	pods scrapedPods
	look news[types.NamespacedName]
}

// tell wakes the loop for a pod's workload.
func (t tellers) tell(ctx context.Context, pod embedded.Pod) {
	if name, known := t.pods.Recommendation(ctx, pod); known {
		t.look.tellIfRoom(name)
	}
}

// embeds returns whether the embedded source answers for these settings. It keeps samples for an hour only, so
// histories from it need checkpoints.
func (s *sources) embeds(settings usage.SourceSettings) bool {
	return settings.Prometheus == nil && s.own != nil
}

// dial is a usage.Dialer. Where the operator has both the embedded source and a server, the server answers for the
// time before the first scrape.
func (s *sources) dial(settings usage.SourceSettings) (usage.Source, error) {
	source, err := s.dialled(settings)
	if err != nil {
		return nil, err
	}
	return usage.Bounded{Source: source, Most: func() usage.Most { return usage.MostOn(s.largest.Node()) }}, nil
}

// dialled is the source of these settings.
func (s *sources) dialled(settings usage.SourceSettings) (usage.Source, error) {
	switch {
	case !s.embeds(settings):
		return s.metered(settings)
	case s.server.Address == "":
		return s.own, nil
	}
	// The embedded source begins with the first scrape. What was before comes from the server, through
	// usage.Backfilled.
	past, err := s.operators(nil)
	if err != nil {
		return nil, err
	}
	return usage.Backfilled{Source: s.own, Since: s.own.Since, Past: prometheus.Metered{Client: past, Meter: s.meter}}, nil
}

// gauge returns the source that measures watched pods for these settings.
func (s *sources) gauge(settings policy.Settings) (workload.Gauge, error) {
	if s.embeds(settings.Source) {
		return s.own, nil
	}
	return s.kept(settings.Source)
}

// climbs returns what tells of the memory of pods lately for these settings. A server that a policy names is not asked: who
// is close to a limit there is not known.
func (s *sources) climbs(settings policy.Settings) (workload.Climbs, error) {
	switch {
	case s.embeds(settings.Source):
		return s.own, nil
	case settings.Source.Prometheus == nil && s.near != nil:
		return s.near, nil
	}
	return nil, errors.New("memory is raised before an OOM kill by the operator's own usage source alone")
}

// askRange asks the operator's own server.
func (s *sources) askRange(ctx context.Context, expression string, query usage.Query, yield func(prometheus.Element)) (usage.Report, error) {
	server, err := s.kept(usage.SourceSettings{})
	if err != nil {
		return usage.Report{}, err
	}
	return server.Range(ctx, expression, query, yield)
}

// known is what was scraped, or what a server has been asked for already. The loop is nil where no node's load is asked
// for.
// The comparison with nil matters: a nil *LoadLoop in the interface NodeUsage would not be nil.
func (s *sources) known(pods *recent.Store, nodes *nodeloop.LoadLoop) workload.RecentCPU {
	switch {
	case s.own != nil:
		return s.own
	case nodes == nil:
		return recent.Known{Pods: pods}
	}
	return recent.Known{Pods: pods, Nodes: nodes}
}

// loads returns the load of nodes from the operator's own source. An error means that its server cannot be used.
func (s *sources) loads(interval time.Duration) (loads prometheus.Loads, err error) {
	ask := s.askNodes
	if s.own != nil {
		ask = s.own.AskNodes
	} else if _, err := s.operators(nil); err != nil {
		return loads, err
	}
	return prometheus.NewLoads(ask, prometheus.ScopeOf(s.server.Labels), interval), nil
}

// askNodes asks the operator's own server about all nodes. It looks the client up at each call, because a client
// that failed has been replaced.
func (s *sources) askNodes(ctx context.Context, expression string, at time.Time) (map[string]float64, error) {
	server, err := s.kept(usage.SourceSettings{})
	if err != nil {
		return nil, err
	}
	return server.Nodes(ctx, expression, at)
}

// kept returns the client of an earlier question, or a new one (see prometheus.Clients).
func (s *sources) kept(settings usage.SourceSettings) (prometheus.Metered, error) {
	return s.clients.Of(settings.Digest(), func() (prometheus.Metered, error) { return s.metered(settings) })
}

// metered makes a client of the server that settings name, or of the operator's own. A client that fails removes
// itself from clients.
func (s *sources) metered(settings usage.SourceSettings) (prometheus.Metered, error) {
	c, err := s.connect(settings)
	return prometheus.Metered{
		Client: c, Meter: s.meter, Namespace: settings.Namespace, Failed: func() { s.clients.Drop(settings.Digest(), c) },
	}, err
}

// connect makes the client of a server. The Secrets are those of the policy's namespace, or of the operator's
// namespace for the cluster's defaults. A server that a policy names is limited: see Config.PolicySource.
func (s *sources) connect(settings usage.SourceSettings) (*prometheus.Client, error) {
	named := settings.Prometheus
	if named == nil {
		return s.operators(settings.Labels)
	}
	address, host := cmp.Or(named.Address, s.server.Address), ""
	// A source of a namespace may only use Secrets that name its host; the operator's own may use any.
	if settings.Namespace != "" {
		host = hostOf(address)
	}
	credentials, err := readCredentials(s.secrets, cmp.Or(settings.Namespace, s.namespace), host, *named)
	if err != nil {
		return nil, err
	}
	config := prometheus.ConfigOf(*named, credentials)
	config.Address = address
	config.PolicySource = settings.OfPolicy || settings.Namespace != ""
	if config.PolicySource {
		config.MaxBytes = prometheus.PolicyMaxBytes
	}
	config.Labels = settings.Labels
	if config.Address == "" {
		return nil, errors.New("metricsSource.prometheus has no address, and the operator has none: set metricsSource.prometheus.address")
	}
	return prometheus.New(config)
}

// operators makes a client of the operator's own server. The operator's matchers win over a policy's labels: a
// policy can narrow what it reads, and an attempt to widen it is an error.
func (s *sources) operators(labels map[string]string) (*prometheus.Client, error) {
	wanted := maps.Clone(s.server.Labels)
	// A label that contradicts the operator's matcher is an error, not an empty answer, which would look like no
	// usage.
	for name, value := range labels {
		if own, known := wanted[name]; known && own != value {
			return nil, fmt.Errorf("metricsSource.labels.%s %q is not what the operator's own source is asked for: usage.prometheus.matchers.%s is %q", name, value, name, own)
		}
		if wanted == nil {
			wanted = map[string]string{}
		}
		wanted[name] = value
	}
	config := s.server.Config
	config.Labels = wanted
	// The file is read at each request. It is only checked here, so that a wrong path is found at once.
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

// secretTimeout bounds the reading of one Secret.
const secretTimeout = 10 * time.Second

// hostOf returns the host of an address, with its port where it has one; empty for an address that is no URL.
func hostOf(address string) string {
	at, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return at.Host
}

// readCredentials reads the Secrets that a source names, from one namespace. Where host is given, each Secret must
// name that host (see madeFor). Without that rule, a user who may write policies but not read Secrets could send
// any Secret of the namespace to a server of his own.
func readCredentials(secrets client.Reader, namespace, host string, source v1alpha1.PrometheusSource) (prometheus.Credentials, error) {
	var out prometheus.Credentials
	ctx, cancel := context.WithTimeout(context.Background(), secretTimeout)
	defer cancel()
	var err error
	read := func(key *v1alpha1.SecretKey) []byte {
		if key == nil || err != nil {
			return nil
		}
		var value []byte
		value, err = readSecret(ctx, secrets, namespace, host, *key)
		return value
	}
	out.BearerToken = strings.TrimSpace(string(read(source.BearerTokenSecret)))
	if source.BasicAuth != nil {
		out.Password = string(read(&source.BasicAuth.PasswordSecret))
	}
	if source.TLS != nil {
		out.CA = read(source.TLS.CASecret)
	}
	return out, err
}

// readSecret reads one key of one Secret. Its errors name the object and what to change, never a value.
func readSecret(ctx context.Context, secrets client.Reader, namespace, host string, key v1alpha1.SecretKey) ([]byte, error) {
	secret := &corev1.Secret{}
	err := secrets.Get(ctx, client.ObjectKey{Namespace: namespace, Name: key.Name}, secret)
	switch {
	case apierrors.IsForbidden(err) && host == "":
		return nil, fmt.Errorf("secret %s/%s of the usage source may not be read: add %s to the value usage.defaultsSecrets", namespace, key.Name, key.Name)
	case err != nil:
		return nil, fmt.Errorf("reading secret %s/%s of the usage source: %w", namespace, key.Name, err)
	}
	// The key is not read before this check.
	if host != "" && !madeFor(secret, host) {
		return nil, fmt.Errorf("secret %s/%s is not meant for the usage source %s: whoever may change the secret says so with the annotation %s: %s",
			namespace, key.Name, host, v1alpha1.UsageSourceAnnotation, host)
	}
	value, ok := secret.Data[key.Key]
	if !ok {
		return nil, fmt.Errorf("secret %s/%s has no key %q", namespace, key.Name, key.Key)
	}
	return value, nil
}

// madeFor returns whether the annotation or the label attune.io/usage-source of a Secret names the host, with its
// port or for any port.
func madeFor(secret *corev1.Secret, host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	for _, said := range []string{secret.Annotations[v1alpha1.UsageSourceAnnotation], secret.Labels[v1alpha1.UsageSourceAnnotation]} {
		if said != "" && (strings.EqualFold(said, host) || strings.EqualFold(said, strings.Trim(name, "[]"))) {
			return true
		}
	}
	return false
}

// tokenSeconds is how long a token of the scraper is valid: the least that the API server issues. A token that was
// stolen from a node can read kubelets' metrics for so long, and nothing else.
const tokenSeconds = 600

// scraperTokens returns the tokens that kubelets receive. The operator's own token must not be sent, since it may
// resize every pod: an attacker on one node would have it within a minute. It is nil where no ServiceAccount is
// named, as outside of a cluster.
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
			return nil, fmt.Errorf("asking for a token of the ServiceAccount %s: %w", name, err)
		}
		return &oauth2.Token{AccessToken: answer.Status.Token, Expiry: answer.Status.ExpirationTimestamp.Time}, nil
	}
}

// evictionsAtOnce makes a 429 to an eviction an error at once. The API server answers 429 with ten seconds to wait
// while a disruption budget has not been looked at, and client-go would wait and retry ten times: a worker would
// stand still for 100 seconds, and with it the reverts of other workloads. The loops retry by themselves.
func evictionsAtOnce(next http.RoundTripper) http.RoundTripper {
	return promhttp.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil && answer.StatusCode == http.StatusTooManyRequests && strings.HasSuffix(r.URL.Path, "/eviction") {
			answer.Header.Del("Retry-After") // without it, client-go does not retry
		}
		return answer, err
	})
}
