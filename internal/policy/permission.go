package policy

import (
	"fmt"
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
)

// SourceAllowed reports whether the objects of a namespace may name their own server, credentials or
// SLO queries. allowed is the operator's list of such namespaces; "*" means all.
func SourceAllowed(namespace string, allowed []string) bool {
	return slices.Contains(allowed, namespace) || slices.Contains(allowed, "*")
}

// Operator is what whoever installed the operator lets the objects of namespaces do.
type Operator struct {
	// SourceNamespaces may name their own usage sources; "*" stands for all.
	SourceNamespaces []string
	// Steps of history that a policy may keep of a container, and the longest RateWindow; 0: as many and as long as can be.
	Steps      int
	RateWindow time.Duration
	// SomeNamespaces: the operator watches some namespaces only, and does not see all pods of a node.
	SomeNamespaces bool
}

// Ceilings of an operator that nobody has set any for. A week of steps of a minute fits.
const (
	DefaultSteps      = 11_000
	DefaultRateWindow = time.Hour
	// MostSteps is what a checkpoint has room for (usage/codec).
	MostSteps = 131_072
)

// ResolveAllowed is Resolve where only some namespaces may name their own sources. What the objects of
// another one name is a problem and is left out of the settings: the operator would ask that server,
// with the operator's own network and rights, for whatever the object says. What takes more of everybody's memory and
// of the source's time than the operator allows is a problem as well, with the built-in value in its place.
func ResolveAllowed(cluster *v1alpha1.AttuneDefaults, namespace *v1alpha1.AttuneNamespaceDefaults, policy *v1alpha1.AttunePolicy, operator Operator) (Settings, error) {
	layers := layersOf(cluster, namespace, policy)
	var problems []Problem
	for i := range layers {
		if l := &layers[i]; l.level != Cluster && !SourceAllowed(l.namespace, operator.SourceNamespaces) {
			problems = append(problems, l.forbidden()...)
			l.MetricsSource.Prometheus, l.SLOGuardrails = &v1alpha1.PrometheusSource{}, nil
		}
	}
	return resolve(layers, problems, operator)
}

// forbidden are the problems of a layer that may not name its own source.
func (l layer) forbidden() []Problem {
	var problems []Problem
	refuse := func(field, value string) {
		problems = append(problems, Problem{Fields: []string{field}, Levels: []Level{l.level}, Sentence: fmt.Sprintf(
			"%s %s is not allowed in namespace %s: leave it out to use the operator's source, or have an administrator add %s to usage.policySources.namespaces",
			field, value, l.namespace, l.namespace)})
	}
	if p := l.MetricsSource.Prometheus; p.Address != "" {
		refuse("metricsSource.prometheus", p.Address)
	} else if names(p) {
		refuse("metricsSource.prometheus", "without an address")
	}
	for _, guardrail := range l.SLOGuardrails {
		refuse("sloGuardrails", guardrail.Name)
	}
	return problems
}

// names reports whether anything is said of a server besides its address.
func names(p *v1alpha1.PrometheusSource) bool {
	return len(p.Headers) > 0 || len(p.QueryParameters) > 0 || p.BearerTokenSecret != nil || p.BasicAuth != nil || p.TLS != nil
}
