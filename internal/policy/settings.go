// Package policy resolves what applies to a workload: which policy owns it, and which settings hold after the four
// layers built-in, cluster (AttuneDefaults), namespace (AttuneNamespaceDefaults) and policy (AttunePolicy or
// AttuneClusterPolicy). It is pure: it reads objects that it is given and holds no client.
//
// The way of the settings:
//  1. overlay.go lays the layers over one another, field by field; pick is the one function that reads a field.
//     Its other functions check the value of one field.
//  2. resolve.go reads all fields, and has the values where no layer sets one; source.go and slo.go read the larger
//     sections.
//  3. rules.go checks targets, and combinations of fields after all layers are merged.
//  4. invalid.go collects what is wrong as problems, with field, level and a value that would do.
//
// match.go finds the policy of a workload, cluster.go makes an AttuneClusterPolicy one of each of its namespaces,
// bound.go limits what one namespace may use, source.go what its objects may name. The operator, the webhooks and the plugin all resolve with this package, so a setting means
// the same everywhere. Start reading with Settings and Resolve.
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
	// Policy is the AttunePolicy itself. That of an AttuneClusterPolicy is "AttuneClusterPolicy NAME" (LevelOf).
	Policy Level = "policy"
)

// Settings are the resolved settings of one policy. They are complete and valid: Resolve sets every field, and
// pointers are nil only for what may be absent.
type Settings struct {
	// Recommender are the settings of targets.
	Recommender recommender.Settings
	// Resize are the rules for changes of running pods.
	Resize resize.Rules
	// Source is where usage is read, and at what resolution.
	Source usage.SourceSettings

	// Strategy is Workload; Adaptive, which learns from each container's past; or Node, which sizes pods by the node that
	// they share.
	Strategy v1alpha1.Strategy
	// Risk that the strategy Adaptive accepts; Recommender.Adaptive has it as a number.
	Risk v1alpha1.Risk
	// NodeEviction allows the eviction of pods that do not fit on their node (strategy Node).
	NodeEviction bool
	// EvictionRanking decides which pods of a node are evicted first; empty: by rule.
	EvictionRanking v1alpha1.EvictionRanking // empty: by rule
	// NodeGroup names pods whose usage peaks together; empty: the pods of one workload form a group.
	NodeGroup string
	// StartupBoost is nil where pods start without one.
	StartupBoost *Boost
	// SLOGuardrails are the queries that judge a resize at the end of its watch; invalid ones are left out.
	SLOGuardrails []v1alpha1.SLOGuardrail
	// Weight decides which of several policies owns a workload; the highest wins.
	Weight int32
	// Spared are the pods that are never lowered; none under an AttunePolicy.
	Spared Spared
	// Pricing turns savings into money.
	Pricing Pricing

	// Origin is the level that set each field, by the field's path in the spec, such as cpu.percentile.
	Origin map[string]Level
}

// Boost is more CPU for a starting pod.
type Boost struct {
	// Multiplier of the CPU request, greater than 1 and at most v1alpha1.MaxBoost.
	Multiplier float64
	// Duration for which the containers have to run before the boost is taken back.
	Duration time.Duration
}

// Pricing holds the prices of resources. A price of zero is unknown, and no cost is reported for it.
type Pricing struct {
	// CPUPerCoreHour and MemoryPerGiBHour are prices in the currency, for one core or GiB and one hour.
	CPUPerCoreHour, MemoryPerGiBHour float64
	// Currency is a sign or name that is only shown.
	Currency string
}

// Field is one setting of a policy, with the level that set it.
type Field struct {
	// Path of the field in the spec, such as cpu.percentile.
	Path string
	// Value that the level set, as it is written in an object; of a list or a map as JSON, and of at most mostOfValue bytes. What may hold
	// a secret is not in it.
	Value string
	Level Level
}

// mostOfValue is how many bytes of a value are told.
const mostOfValue = 200

// secretive is the beginning of the paths whose values may hold secrets.
const secretive = "metricsSource.prometheus"

// Fields returns every setting of a policy in the order of its paths: what ResolveAllowed reads, and from which level.
func Fields(cluster *v1alpha1.AttuneDefaults, namespace *v1alpha1.AttuneNamespaceDefaults, policy *v1alpha1.AttunePolicy, operator Operator) []Field {
	o := allowed(layersOf(cluster, namespace, policy), operator)
	values := map[string]any{}
	o.note = func(path string, value any) { values[path] = value }
	settings, _ := resolve(o, operator) // what is wrong is told by the policy's condition
	var fields []Field
	for path, value := range values {
		fields = append(fields, Field{Path: path, Value: written(path, value), Level: settings.Origin[path]})
	}
	slices.SortFunc(fields, func(a, b Field) int { return cmp.Compare(a.Path, b.Path) })
	return fields
}

// Object names what set a field of the settings by which sizedBy sizes the workloads of a namespace.
func (l Level) Object(sizedBy v1alpha1.PolicyRef, namespace string) string {
	switch l {
	case Policy:
		return cmp.Or(string(sizedBy.Kind), string(v1alpha1.PolicyKindNamespaced)) + " " + sizedBy.Name
	case Namespace:
		return fmt.Sprintf("AttuneNamespaceDefaults %s of %s", v1alpha1.DefaultsName, namespace)
	case Cluster:
		return "AttuneDefaults " + v1alpha1.DefaultsName
	}
	return string(l)
}

// written is a value as it is written in an object; empty: there is none.
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
