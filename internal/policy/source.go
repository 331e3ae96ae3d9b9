package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/podview"
	"attune.io/attune/usage"
)

// source reads which server is queried for usage, and how. The step comes first, because the built-in rate window
// depends on it: a window shorter than a step would miss samples.
func (o *overlay) source(operator Operator, strategy v1alpha1.Strategy) usage.SourceSettings {
	step := span(o, "metricsSource.queryStep", queryStep, 10*time.Second, time.Hour, func(l *layer) *v1alpha1.Duration { return l.MetricsSource.QueryStep })
	s := usage.SourceSettings{
		HistoryWindow: span(o, "metricsSource.historyWindow", windowOf(strategy, step, operator), time.Hour, 720*time.Hour, func(l *layer) *v1alpha1.Duration { return l.MetricsSource.HistoryWindow }),
		QueryStep:     step,
		RateWindow: span(o, "metricsSource.rateWindow", max(step, minRateWindow), minRateWindow, 720*time.Hour,
			func(l *layer) *v1alpha1.Duration { return l.MetricsSource.RateWindow }),
	}
	o.bound(&s, operator)
	s.Labels = o.labels("metricsSource.labels")
	s.Prometheus, s.Namespace = o.prometheus()
	s.OfPolicy = s.Prometheus != nil && o.origin["metricsSource.prometheus.address"] != Cluster
	if !s.OfPolicy {
		o.bindLabels("metricsSource.labels", &s)
	}
	return s
}

// windowOf returns the built-in history window of a strategy. Adaptive uses two weeks, because it weighs rare peaks. If
// that would exceed the step limit of a policy, it uses one week like the others.
func windowOf(strategy v1alpha1.Strategy, step time.Duration, operator Operator) time.Duration {
	if strategy == v1alpha1.StrategyAdaptive && int(adaptiveWindow/step) <= cmp.Or(operator.Steps, MostSteps) {
		return adaptiveWindow
	}
	return historyWindow
}

// bound limits how much one policy uses of the memory and query time that all policies share. A value above the
// operator's limit is a problem, and the built-in value applies instead.
func (o *overlay) bound(s *usage.SourceSettings, operator Operator) {
	const window, step, rate = "metricsSource.historyWindow", "metricsSource.queryStep", "metricsSource.rateWindow"
	if most := cmp.Or(operator.Steps, MostSteps); stepsIn(*s) > most {
		o.clash([]string{step, window}, "%s %s gives %d samples in %s %s, but a policy may have at most %d (usage.limits.steps): set %s to %s or more",
			step, o.quote(step, short(s.QueryStep)), stepsIn(*s), window, o.quote(window, short(s.HistoryWindow)), most, step, short(stepFor(s.HistoryWindow, most)))
		s.HistoryWindow, s.QueryStep = historyWindow, queryStep
	}
	if most := cmp.Or(operator.RateWindow, s.RateWindow); s.RateWindow > most {
		o.clash([]string{rate, step}, "%s %s is longer than the operator allows (usage.limits.rateWindow): set %s to %s or less",
			rate, o.quote(rate, short(s.RateWindow)), rate, short(most))
		s.RateWindow = min(max(s.QueryStep, minRateWindow), most)
	}
}

// stepFor returns the shortest step with at most that many steps in a window: a usual length, or else whole seconds.
func stepFor(window time.Duration, steps int) time.Duration {
	least := (window + time.Duration(steps) - 1) / time.Duration(steps)
	for _, step := range []time.Duration{15, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600} {
		if step*time.Second >= least {
			return step * time.Second
		}
	}
	return least.Truncate(time.Second) + time.Second
}

// labels reads the labels that every query matches. The highest level that sets labels replaces the labels of all lower
// levels.
func (o *overlay) labels(path string) map[string]string {
	said := pick(o, path, nil, func(l *layer) *map[string]v1alpha1.LabelValue { return dict(l.MetricsSource.Labels) })
	if len(said) == 0 {
		return nil
	}
	labels := make(map[string]string, len(said))
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if !labelName.MatchString(name) || slices.Contains(ownLabels, name) || said[name] == "" {
			o.invalid(path, "%s holds %s, which must be the name of a label other than namespace, pod and container, with a value, e.g. {cluster: eu-1}",
				path, o.quote(path, strconv.Quote(name+": "+string(said[name]))))
			continue
		}
		labels[name] = string(said[name])
	}
	return labels
}

// clusterLabels returns the valid labels that the AttuneDefaults set; nil: none.
func clusterLabels(layers []layer) (bound map[string]string) {
	for _, l := range layers {
		if l.level != Cluster {
			continue
		}
		for name, value := range l.MetricsSource.Labels {
			if labelName.MatchString(name) && !slices.Contains(ownLabels, name) && value != "" {
				podview.SetIn(&bound, name, string(value))
			}
		}
	}
	return bound
}

// bindLabels adds the labels of the AttuneDefaults to all queries of a server that no namespace names. Otherwise a
// namespace could read the series of the same namespace in another cluster with the operator's credentials.
func (o *overlay) bindLabels(path string, s *usage.SourceSettings) {
	bound := clusterLabels(o.layers)
	if o.origin[path].ofCluster() { // of the same administrator
		return
	}
	for _, name := range slices.Sorted(maps.Keys(bound)) {
		if own, set := s.Labels[name]; set && own != bound[name] {
			o.invalid(path, "%s.%s %s differs from the AttuneDefaults: use %s, or leave it out", path, name, o.quote(path, own), clip.Marked(bound[name], mostQuoted))
		}
		podview.SetIn(&s.Labels, name, bound[name])
	}
}

// labelName is the label format of Prometheus, with a length limit.
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)

// ownLabels are the labels that attune sets in every query.
var ownLabels = []string{"__name__", "namespace", "pod", "container"}

// prometheus merges the settings of the server. It returns nil if no address is set.
//
// Settings for one server must not be sent to another one: only the level that sets the address, and the levels above
// it, count. Otherwise a policy could set its own address and receive a token from AttuneDefaults. Only AttuneDefaults
// set the other fields of their address. Otherwise a policy could use their token with a tenant's header of its choice.
//
// Credentials and TLS are read as one field, because their Secrets are in one namespace, returned as secrets. It is the
// namespace of the object that names the Secrets. It is empty for AttuneDefaults (the operator's namespace) and without
// credentials, so that policies of several namespaces have equal settings for one server.
func (o *overlay) prometheus() (source *v1alpha1.PrometheusSource, secrets string) {
	const path = "metricsSource.prometheus"
	o.refuseTwoCredentials(path)
	address := pick(o, path+".address", "", func(l *layer) *string { return nonZero(l.MetricsSource.Prometheus.Address) })
	if address == "" {
		o.refuseServerless(path)
		return nil, ""
	}
	if why := checkAddress(address, o.origin[path+".address"]); why != "" {
		o.invalid(path+".address", "%s.address %s %s", path, o.quote(path+".address", address), why)
		return nil, ""
	}
	above := &overlay{layers: o.from(o.origin[path+".address"]), origin: o.origin, note: o.note}
	if o.origin[path+".address"] == Cluster {
		above.layers = above.layers[:1]
		o.refuseForeignServer(path)
	}
	source = orEmpty(pick(above, path+".credentials", nil, credentialsOf))
	source.Address = address
	source.Headers = pick(above, path+".headers", nil, func(l *layer) *map[string]string { return dict(l.MetricsSource.Prometheus.Headers) })
	o.checkHeaders(path+".headers", source.Headers)
	source.QueryParameters = pick(above, path+".queryParameters", nil, func(l *layer) *map[string]string { return dict(l.MetricsSource.Prometheus.QueryParameters) })
	return source, namespaceOf(o.layers, o.origin[path+".credentials"])
}

// from returns the layers at and above a level.
func (o *overlay) from(level Level) []layer {
	at := slices.IndexFunc(o.layers, func(l layer) bool { return l.level == level })
	return o.layers[at:]
}

// namespaceOf returns the namespace of the object that sets a level; empty for AttuneDefaults and for built-in values.
func namespaceOf(layers []layer, level Level) string {
	for _, l := range layers {
		if l.level == level {
			return l.namespace
		}
	}
	return ""
}

// refuseTwoCredentials reports a level that sets both a bearer token and basic authentication.
func (o *overlay) refuseTwoCredentials(path string) {
	for _, l := range o.layers {
		if p := l.MetricsSource.Prometheus; p.BearerTokenSecret != nil && p.BasicAuth != nil {
			o.origin[path] = l.level
			o.invalid(path, "%s must not have both bearerTokenSecret and basicAuth: remove one of them", o.quote(path, path))
		}
	}
}

// checkHeaders rejects invalid headers, and headers that have their own field. Messages contain no values, because some
// are secret.
func (o *overlay) checkHeaders(path string, headers map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		switch {
		case !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(headers[name]):
			o.invalid(path, "%s holds %s, which is not a valid HTTP header: use letters, digits and dashes, e.g. X-Scope-OrgID", path, o.quote(path, strconv.Quote(name)))
		case slices.Contains(ownHeaders, strings.ToLower(name)):
			o.invalid(path, "%s must not hold %s: use bearerTokenSecret or basicAuth for credentials and address for the host", path, o.quote(path, name))
		}
	}
}

// ownHeaders are the headers that the HTTP client sets.
var ownHeaders = []string{"authorization", "host", "content-length", "transfer-encoding", "connection"}

// credentialsOf returns a layer's credentials and TLS settings as one value; nil if it sets none of them.
func credentialsOf(l *layer) **v1alpha1.PrometheusSource {
	p := l.MetricsSource.Prometheus
	if p.BearerTokenSecret == nil && p.BasicAuth == nil && p.TLS == nil {
		return nil
	}
	return nonZero(&v1alpha1.PrometheusSource{BearerTokenSecret: p.BearerTokenSecret, BasicAuth: p.BasicAuth, TLS: p.TLS})
}

// refuseServerless reports headers or credentials without an address: they would be ignored silently.
func (o *overlay) refuseServerless(path string) {
	for _, l := range o.layers {
		if names(l.MetricsSource.Prometheus) {
			o.origin[path] = l.level
			o.invalid(path, "%s has no address for its other fields: set %s.address, e.g. http://prometheus.monitoring:9090", o.quote(path, path), path)
			return
		}
	}
}

// refuseForeignServer reports headers or credentials of a namespace for the server of the AttuneDefaults.
func (o *overlay) refuseForeignServer(path string) {
	for _, l := range o.layers {
		if l.level != Cluster && names(l.MetricsSource.Prometheus) {
			o.origin[path] = l.level
			o.invalid(path, "%s has no address for its other fields, and the server of the AttuneDefaults is queried only as they say: "+
				"set %s.address too, e.g. http://prometheus.monitoring:9090, or leave the other fields out", o.quote(path, path), path)
		}
	}
}

// checkAddress returns the problem with a server's address as the end of a sentence; empty if it is valid.
//
// The operator connects to the address from inside the cluster with its own network access. So an address must not lead
// to endpoints that only the node or the operator may reach (server-side request forgery). Host names are not resolved
// here, because they can resolve to another address later: the usage client checks the resolved address with the same
// list (usage.AllowedAddress).
func checkAddress(server string, level Level) string {
	const example = "e.g. http://prometheus.monitoring:9090"
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return "is not a URL: use scheme, host and port, " + example
	case u.Scheme != "http" && u.Scheme != "https":
		return "must begin with http:// or https://, " + example
	case u.User != nil:
		return "must not hold a user name or password: use basicAuth and leave them out, " + example
	case u.RawQuery != "" || u.Fragment != "":
		return "must not hold a query or fragment: use queryParameters, " + example
	case forbiddenHost(u.Hostname(), level):
		return "points to endpoints of the node or of the operator: use a Service, " + example
	}
	return ""
}

// metadataHosts are names of cloud metadata services, which hand out credentials of the node.
var metadataHosts = []string{"metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"}

// forbiddenHost reports whether a level must not name a host. AttuneDefaults may name loopback addresses: their author
// also installs the operator.
func forbiddenHost(host string, level Level) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if slices.Contains(metadataHosts, host) {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return !usage.AllowedAddress(ip, level != Cluster)
	}
	// Some resolvers read 2852039166 and 0xa9fea9fe as the IPv4 address with that number.
	if strings.Trim(host, "0123456789.") == "" || strings.HasPrefix(host, "0x") {
		return true
	}
	return level != Cluster && (host == "localhost" || strings.HasSuffix(host, ".localhost"))
}

// SourceAllowed reports whether objects of a namespace may name their own server, credentials or SLO queries. allowed
// are the namespaces configured at installation; "*" means all.
func SourceAllowed(namespace string, allowed []string) bool {
	return slices.Contains(allowed, namespace) || slices.Contains(allowed, "*")
}

// Operator has the permissions and limits that the installation gives the objects of namespaces. The zero value allows
// no namespace its own source, and sets no limits. Command-line flags set it once at the start.
type Operator struct {
	// SourceNamespaces are the namespaces that may name their own usage sources; "*" means all.
	SourceNamespaces []string
	// Steps is how many samples of history a policy may keep per container; 0 means MostSteps. RateWindow is the
	// longest rate window; 0 means no limit.
	Steps      int
	RateWindow time.Duration
	// Namespace is the operator's namespace; empty if not known.
	Namespace string
	// SomeNamespaces is true if the operator watches only some namespaces, so that it does not see all pods of a node.
	SomeNamespaces bool
	// Embedded is true if the operator scrapes kubelets itself; false if it does not, or if it is not known.
	Embedded bool
}

// DefaultSteps and DefaultRateWindow are the built-in limits of an installation. A week of samples of one minute
// (10,080) is below DefaultSteps.
const (
	DefaultSteps      = 11_000
	DefaultRateWindow = time.Hour
	// MostSteps is how many samples a checkpoint can hold (usage/codec).
	MostSteps = 131_072
)

// ResolveAllowed is Resolve with the permissions of the operator. A source that a namespace names without permission is
// a problem and is left out: the operator would connect to that server with its own network access. A setting above the
// operator's limits is a problem too, and the built-in value applies: it would use memory and query time that all
// namespaces share.
func ResolveAllowed(cluster *v1alpha1.AttuneDefaults, namespace *v1alpha1.AttuneNamespaceDefaults, policy *v1alpha1.AttunePolicy, operator Operator) (Settings, error) {
	s, err := resolve(allowed(layersOf(cluster, namespace, policy), operator), operator)
	s.Spared = spared(policy, operator.Namespace)
	return s, err
}

// ResolveNew is ResolveAllowed for an object that is not stored yet: it also rejects Settings.Doubts.
func ResolveNew(cluster *v1alpha1.AttuneDefaults, namespace *v1alpha1.AttuneNamespaceDefaults, policy *v1alpha1.AttunePolicy, operator Operator) (Settings, error) {
	s, err := ResolveAllowed(cluster, namespace, policy, operator)
	if len(s.Doubts) == 0 {
		return s, err
	}
	invalid := &InvalidConfig{}
	errors.As(err, &invalid)
	return s, &InvalidConfig{Problems: slices.Concat(invalid.Problems, s.Doubts)}
}

// allowed returns the overlay of layers without the fields that they may not set.
func allowed(layers []layer, operator Operator) *overlay {
	var problems []Problem
	for i := range layers {
		l := &layers[i]
		if l.level.ofCluster() {
			// A cluster policy has no namespace for Secrets. Guardrails are allowed: a user with write access to
			// cluster policies may also write AttuneDefaults.
			if p := l.MetricsSource.Prometheus; p.Address != "" || names(p) {
				const field = "metricsSource.prometheus"
				problems = append(problems, Problem{Fields: []string{field}, Levels: []Level{l.level},
					Sentence: field + " must not be set in an AttuneClusterPolicy, which has no namespace for Secrets: set it in the AttuneDefaults"})
			}
			l.MetricsSource.Prometheus = &v1alpha1.PrometheusSource{}
			continue
		}
		if l.level != Cluster && !SourceAllowed(l.namespace, operator.SourceNamespaces) {
			problems = append(problems, l.forbidden(i == len(layers)-1)...)
			// The layer has its own copies (newLayer), so the object does not change.
			l.MetricsSource.Prometheus, l.SLOGuardrails = &v1alpha1.PrometheusSource{}, nil
		}
	}
	return &overlay{layers: layers, problems: problems}
}

// forbidden returns the problems of a layer that may not name its own source. own: the layer is the resolved object, so
// its values may be quoted (overlay.quote).
func (l layer) forbidden(own bool) []Problem {
	var problems []Problem
	refuse := func(field, value string) {
		if value = clip.Marked(value, mostQuoted); !own {
			value = "(" + levelNames[l.level] + ")"
		}
		problems = append(problems, Problem{Fields: []string{field}, Levels: []Level{l.level}, Sentence: fmt.Sprintf(
			"%s %s is not allowed in namespace %s: leave it out to use the operator's source, or have an administrator add %s to usage.policySources.namespaces",
			field, value, l.namespace, l.namespace)})
	}
	if p := l.MetricsSource.Prometheus; p.Address != "" {
		refuse("metricsSource.prometheus", p.Address)
	} else if names(p) {
		refuse("metricsSource.prometheus", "without an address")
	}
	for _, guardrail := range l.SLOGuardrails[:min(len(l.SLOGuardrails), MostProblems)] {
		refuse("sloGuardrails", guardrail.Name)
	}
	return problems
}

// names reports whether any field of the server other than its address is set.
func names(p *v1alpha1.PrometheusSource) bool {
	return len(p.Headers) > 0 || len(p.QueryParameters) > 0 || p.BearerTokenSecret != nil || p.BasicAuth != nil || p.TLS != nil
}
