package policy

import (
	"fmt"
	"slices"

	"attune.io/attune/api/v1alpha1"
)

// SourceAllowed reports whether the objects of a namespace may name their own server, credentials or
// SLO queries. allowed is the operator's list of such namespaces; "*" means all.
func SourceAllowed(namespace string, allowed []string) bool {
	return slices.Contains(allowed, namespace) || slices.Contains(allowed, "*")
}

// ResolveAllowed is Resolve where only some namespaces may name their own sources. What the objects of
// another one name is a problem and is left out of the settings: the operator would ask that server,
// with the operator's own network and rights, for whatever the object says.
func ResolveAllowed(cluster *v1alpha1.AttuneDefaults, namespace *v1alpha1.AttuneNamespaceDefaults, policy *v1alpha1.AttunePolicy, allowed []string) (Settings, error) {
	layers := layersOf(cluster, namespace, policy)
	var problems []Problem
	for i := range layers {
		if l := &layers[i]; l.level != Cluster && !SourceAllowed(l.namespace, allowed) {
			problems = append(problems, l.forbidden()...)
			l.MetricsSource.Prometheus, l.SLOGuardrails = &v1alpha1.PrometheusSource{}, nil
		}
	}
	return resolve(layers, problems)
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
