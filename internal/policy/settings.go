// Package policy decides which policy owns a workload and which settings apply. It merges four layers: built-in,
// cluster (AttuneDefaults), namespace (AttuneNamespaceDefaults) and policy (AttunePolicy or AttuneClusterPolicy). It is
// pure: callers pass in the objects.
//
// The path of the settings:
//  1. overlay.go merges the layers, field by field; pick is the only function that reads a field. Its other functions
//     check the value of one field.
//  2. resolve.go reads all fields, and has the built-in values. source.go and slo.go read the larger sections.
//  3. rules.go checks targets, and combinations of fields after all layers are merged.
//  4. invalid.go collects problems, with field, level and an accepted value. remarks.go names fields of valid settings
//     that probably do not do what the user means.
//
// containers.go reads containerPolicies: one more layer for each container. match.go finds the policy of a workload.
// cluster.go turns an AttuneClusterPolicy into a policy of each of its namespaces. bound.go limits what one namespace may
// use. source.go checks which usage sources its objects may name. The operator, the webhooks and the plugin all use this
// package, so a setting means the same everywhere. Start reading with Settings and Resolve.
package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/usage"
)

// Level is the layer that set a field, from the lowest to the highest: built-in, cluster, namespace, policy.
type Level string

const (
	// BuiltIn is the value in resolve.go.
	BuiltIn Level = "built-in"
	// Cluster is the AttuneDefaults object named default.
	Cluster Level = "cluster"
	// Namespace is the AttuneNamespaceDefaults object named default.
	Namespace Level = "namespace"
	// Policy is the AttunePolicy itself. The level of an AttuneClusterPolicy is "AttuneClusterPolicy NAME" (LevelOf).
	Policy Level = "policy"
)

// Settings are the resolved settings of one policy. They are complete and valid: Resolve sets every field, and a
// pointer is nil only if the setting is optional.
type Settings struct {
	// Recommender has the settings of targets.
	Recommender recommender.Settings
	// Resize has the rules for resizes of running pods.
	Resize resize.Rules
	// GuardrailScope is what the queries of Resize.Guardrails may read on the source.
	GuardrailScope QueryScope
	// Source is where usage is read, and at which resolution.
	Source usage.SourceSettings

	// Strategy is Workload; Adaptive, which learns from each container's history; or Node, which sizes pods by the node
	// that they share.
	Strategy v1alpha1.Strategy
	// Risk that strategy Adaptive accepts; Recommender.Adaptive has it as a number.
	Risk v1alpha1.Risk
	// Admission is Disabled if new pods are not sized in any mode.
	Admission v1alpha1.Switch
	// NodeEviction allows the eviction of pods that do not fit on their node (strategy Node).
	NodeEviction bool
	// EvictionRanking decides which pods of a node are evicted first; empty means by rule.
	EvictionRanking v1alpha1.EvictionRanking
	// NodeGroup names pods whose usage peaks together; empty means that the pods of one workload form a group.
	NodeGroup string
	// StartupBoost is nil if pods start without a boost. BoostOf has the boost of one container.
	StartupBoost *Boost
	// Containers are the settings of the containers that containerPolicies names (For).
	Containers map[string]*ContainerSettings
	// Weight decides which of several policies owns a workload; the highest wins.
	Weight int32
	// Spared are the pods that attune never lowers; SpareNone for an AttunePolicy.
	Spared Spared
	// Pricing turns savings into money.
	Pricing Pricing

	// Doubts are bounds of memory that cannot be meant. A new object with one is rejected (ResolveNew). Objects of earlier
	// releases may have one: attune then sets the least sizes.
	Doubts []Problem

	// Origin is the level that set each field, by the field's path in the spec, such as cpu.percentile.
	Origin map[string]Level
	// Scraped is true if the usage is known to come from kubelets.
	Scraped bool
}

// ContainerSettings are the settings of one container, merged over those of the policy.
type ContainerSettings struct {
	// Recommender has the settings of its targets.
	Recommender recommender.Settings
	// StartupBoost is nil if the container starts without a boost.
	StartupBoost *Boost
}

// container returns the settings of an entry of containerPolicies: the one with the exact name, otherwise the one for
// every container; nil: there is none.
func (s *Settings) container(name string) *ContainerSettings {
	if of := s.Containers[name]; of != nil {
		return of
	}
	return s.Containers[resize.EveryContainer]
}

// For returns the settings of the recommender for one container. They must not be changed.
func (s *Settings) For(container string) *recommender.Settings {
	if of := s.container(container); of != nil {
		return &of.Recommender
	}
	return &s.Recommender
}

// KeepsReplicas reports whether a request on which an HPA scales may change within the range in which the HPA keeps the
// number of replicas (settings Keep and Retarget). Strategy Node shares what pods need at the moment, so it knows no range.
func (s *Settings) KeepsReplicas(container string, r recommender.Resource) bool {
	return s.Strategy != v1alpha1.StrategyNode && s.For(container).Of[r].KeepReplicas
}

// Retargets reports whether the target of an HPA that scales on a request may change together with the request. Then
// KeepsReplicas is true too: where the target may not be written, a range is searched.
func (s *Settings) Retargets(container string, r recommender.Resource) bool {
	return s.KeepsReplicas(container, r) && s.For(container).Of[r].Retarget
}

// KeepsAnyReplicas reports whether KeepsReplicas holds for any container.
func (s *Settings) KeepsAnyReplicas() bool {
	keeps := func(container string) bool {
		return s.KeepsReplicas(container, recommender.CPU) || s.KeepsReplicas(container, recommender.Memory)
	}
	for name := range s.Containers {
		if keeps(name) {
			return true
		}
	}
	return keeps("")
}

// BoostOf returns the startup boost of one container; nil: it has none.
func (s *Settings) BoostOf(container string) *Boost {
	if of := s.container(container); of != nil {
		return of.StartupBoost
	}
	return s.StartupBoost
}

// Boost is more CPU for a starting pod.
type Boost struct {
	// Multiplier of the CPU request, greater than 1 and at most v1alpha1.MaxBoost.
	Multiplier float64
	// Duration that the containers have to run before attune reverts the boost.
	Duration time.Duration
}

// Pricing has the prices of resources. A price of 0 means not known, and no cost is reported for it.
type Pricing struct {
	// CPUPerCoreHour and MemoryPerGiBHour are prices in the currency, for one core or GiB and one hour.
	CPUPerCoreHour, MemoryPerGiBHour float64
	// Currency is a sign or a name, for display only.
	Currency string
}

// Field is one setting of a policy, with the level that set it.
type Field struct {
	// Path of the field in the spec, such as cpu.percentile.
	Path string
	// Value that the level set, as in a manifest; lists and maps as JSON. It has at most mostOfValue bytes. Values that
	// may contain a secret are not shown.
	Value string
	Level Level
}

// mostOfValue is the size limit of a Field's value, in bytes.
const mostOfValue = 200

// secretive is the prefix of paths whose values may contain secrets.
const secretive = "metricsSource.prometheus"

// Fields returns every setting of a policy sorted by path: the values that ResolveAllowed reads, and their levels.
func Fields(cluster *v1alpha1.AttuneDefaults, namespace *v1alpha1.AttuneNamespaceDefaults, policy *v1alpha1.AttunePolicy, operator Operator) []Field {
	o := allowed(layersOf(cluster, namespace, policy), operator)
	values := map[string]any{}
	o.note = func(path string, value any) { values[path] = value }
	settings, _ := resolve(o, operator) // the policy's condition reports errors
	var fields []Field
	for path, value := range values {
		fields = append(fields, Field{Path: path, Value: written(path, value), Level: settings.Origin[path]})
	}
	slices.SortFunc(fields, func(a, b Field) int { return cmp.Compare(a.Path, b.Path) })
	return fields
}

// Object names the object that set a field. sizedBy is the policy of the workloads of a namespace.
func (l Level) Object(sizedBy v1alpha1.PolicyRef, namespace string) string {
	base := l.base()
	within := string(l[len(base):])
	switch base {
	case Policy:
		return cmp.Or(string(sizedBy.Kind), string(v1alpha1.PolicyKindNamespaced)) + " " + sizedBy.Name + within
	case Namespace:
		return fmt.Sprintf("AttuneNamespaceDefaults %s of %s%s", v1alpha1.DefaultsName, namespace, within)
	case Cluster:
		return "AttuneDefaults " + v1alpha1.DefaultsName + within
	}
	return string(l)
}

// written formats a value as in a manifest; empty if not set.
func written(path string, value any) string {
	if amount, ok := value.(resource.Quantity); ok && amount.IsZero() {
		return "" // no bound
	}
	text, err := json.Marshal(value)
	if err != nil || string(text) == "null" || string(text) == `""` {
		return ""
	}
	if strings.HasPrefix(path, secretive) {
		return "(not shown)"
	}
	var plain string
	if json.Unmarshal(text, &plain) != nil {
		plain = string(text)
	}
	return clip.Marked(plain, mostOfValue)
}
