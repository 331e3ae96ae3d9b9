package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
)

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
