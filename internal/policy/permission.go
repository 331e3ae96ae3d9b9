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

// CheckSource refuses what a namespaced object's settings must not name in a namespace outside the
// allow list: the operator would ask the server, with the operator's own network and rights, for
// whatever the object says. An error is an *InvalidConfig.
func CheckSource(settings v1alpha1.PolicySettings, level Level, namespace string, allowed []string) error {
	if SourceAllowed(namespace, allowed) {
		return nil
	}
	var problems []Problem
	refuse := func(field, value string) {
		problems = append(problems, Problem{Fields: []string{field}, Levels: []Level{level}, Sentence: fmt.Sprintf(
			"%s %s is not allowed in namespace %s: leave it out to use the operator's source, or have an administrator add %s to usage.policySources.namespaces",
			field, value, namespace, namespace)})
	}
	if source := settings.MetricsSource; source != nil && source.Prometheus != nil {
		refuse("metricsSource.prometheus", named(source.Prometheus))
	}
	for _, guardrail := range settings.SLOGuardrails {
		refuse("sloGuardrails", guardrail.Name)
	}
	if len(problems) == 0 {
		return nil
	}
	return &InvalidConfig{Problems: problems}
}

// named is what a reader finds the server by, never a header's value.
func named(p *v1alpha1.PrometheusSource) string {
	if p.Address != "" {
		return p.Address
	}
	return "without an address"
}
