package policy

import (
	"fmt"
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
)

// SourceAllowed reports whether objects of a namespace may name their own server, credentials or SLO queries.
// allowed are the namespaces that the operator was installed with; "*" stands for all.
func SourceAllowed(namespace string, allowed []string) bool {
	return slices.Contains(allowed, namespace) || slices.Contains(allowed, "*")
}

// Operator is what the installation of the operator allows the objects of namespaces. The zero value allows no
// namespace a source of its own, and sets no ceilings. Command-line flags set it once at the start.
type Operator struct {
	// SourceNamespaces are the namespaces that may name their own usage sources; "*" stands for all.
	SourceNamespaces []string
	// Steps is how many steps of history a policy may keep of a container; 0: MostSteps. RateWindow is the longest
	// rate window; 0: no ceiling.
	Steps      int
	RateWindow time.Duration
	// Namespace is the operator's own; empty: not known.
	Namespace string
	// SomeNamespaces is true where the operator watches some namespaces only, so that it does not see all pods of
	// a node.
	SomeNamespaces bool
}

// DefaultSteps and DefaultRateWindow are the ceilings of an operator that is installed without any. A week of
// steps of one minute (10,080) is below DefaultSteps.
const (
	DefaultSteps      = 11_000
	DefaultRateWindow = time.Hour
	// MostSteps is what a checkpoint has room for (usage/codec).
	MostSteps = 131_072
)

// ResolveAllowed is Resolve with the permissions of the operator. What the objects of a namespace name without
// permission is a problem and is left out of the settings: the operator would connect to that server with its own
// network access and rights. A setting above the operator's ceilings is a problem too, and the built-in value
// takes its place: it would use memory and query time that all namespaces share.
func ResolveAllowed(cluster *v1alpha1.AttuneDefaults, namespace *v1alpha1.AttuneNamespaceDefaults, policy *v1alpha1.AttunePolicy, operator Operator) (Settings, error) {
	s, err := resolve(allowed(layersOf(cluster, namespace, policy), operator), operator)
	s.Spared = spared(policy, operator.Namespace)
	return s, err
}

// allowed makes the overlay of layers without what they may not set.
func allowed(layers []layer, operator Operator) *overlay {
	var problems []Problem
	for i := range layers {
		l := &layers[i]
		if l.level.ofCluster() {
			// It has no namespace for its Secrets. Guardrails are allowed: who writes a cluster policy may write AttuneDefaults.
			if p := l.MetricsSource.Prometheus; p.Address != "" || names(p) {
				const field = "metricsSource.prometheus"
				problems = append(problems, Problem{Fields: []string{field}, Levels: []Level{l.level},
					Sentence: field + " has no place in an AttuneClusterPolicy, which has no Secrets of its own: set it in the AttuneDefaults"})
			}
			l.MetricsSource.Prometheus = &v1alpha1.PrometheusSource{}
			continue
		}
		if l.level != Cluster && !SourceAllowed(l.namespace, operator.SourceNamespaces) {
			problems = append(problems, l.forbidden()...)
			// The layer has copies of its own (newLayer), so the object is not changed.
			l.MetricsSource.Prometheus, l.SLOGuardrails = &v1alpha1.PrometheusSource{}, nil
		}
	}
	return &overlay{layers: layers, problems: problems}
}

// forbidden returns the problems of a layer that may not name its own source.
func (l layer) forbidden() []Problem {
	var problems []Problem
	refuse := func(field, value string) {
		problems = append(problems, Problem{Fields: []string{field}, Levels: []Level{l.level}, Sentence: fmt.Sprintf(
			"%s %s is not allowed in namespace %s: leave it out to use the operator's source, or have an administrator add %s to usage.policySources.namespaces",
			field, clip.Marked(value, mostQuoted), l.namespace, l.namespace)})
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

// names reports whether anything about a server besides its address is set.
func names(p *v1alpha1.PrometheusSource) bool {
	return len(p.Headers) > 0 || len(p.QueryParameters) > 0 || p.BearerTokenSecret != nil || p.BasicAuth != nil || p.TLS != nil
}
