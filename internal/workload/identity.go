// Package workload answers: what does this pod belong to, and how is that workload doing? It reads
// API objects that it is given and holds no client, so webhook, controller and plugin share it.
package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"attune.io/attune/api/v1alpha1"
)

// Identity names a workload. It is comparable and may key a map.
type Identity struct {
	Kind            v1alpha1.WorkloadKind
	Namespace, Name string
}

// IdentityOf names the workload that a recommendation is for.
func IdentityOf(rec *v1alpha1.AttuneRecommendation) Identity {
	return Identity{Kind: rec.Spec.Workload.Kind, Namespace: rec.Namespace, Name: rec.Spec.Workload.Name}
}

// String is Kind/name, as users write it; without the namespace.
func (i Identity) String() string {
	return string(i.Kind) + "/" + i.Name
}

// maxObjectName and maxLabelValue are the API server's own limits, in bytes.
const (
	maxObjectName = 253
	maxLabelValue = 63
)

// RecommendationName is the name of a workload's AttuneRecommendation: <kind>-<workload> in lower case.
// A longer one than an object name may be is cut, and ends in a hash of the whole.
func RecommendationName(kind v1alpha1.WorkloadKind, name string) string {
	whole := strings.ToLower(string(kind)) + "-" + name
	if len(whole) <= maxObjectName {
		return whole
	}
	tail := "-" + digest(whole)
	return trimEnd(whole[:maxObjectName-len(tail)]) + tail
}

// RecommendationName is that of the workload's AttuneRecommendation.
func (i Identity) RecommendationName() string {
	return RecommendationName(i.Kind, i.Name)
}

// RecommendationLabels are those that an AttuneRecommendation is found by. A long workload name is cut
// to what a label holds, so compare spec.workload before relying on it.
func (i Identity) RecommendationLabels() map[string]string {
	name := i.Name
	if len(name) > maxLabelValue {
		name = trimEnd(name[:maxLabelValue])
	}
	return map[string]string{
		v1alpha1.WorkloadKindLabel: string(i.Kind),
		v1alpha1.WorkloadNameLabel: name,
	}
}

// trimEnd drops what neither a name nor a label value may end with, or have before a dash.
func trimEnd(s string) string {
	return strings.TrimRight(s, "-._")
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:10]
}
