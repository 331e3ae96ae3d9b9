// Package workload finds out to which workload a pod belongs, and reads what decisions need to know about a
// workload. It reads API objects that it is given and holds no client, so that webhook, controller and plugin
// share it: all of them name the same workload for a pod.
//
// Its parts:
//   - identity.go: the name of a workload and of its AttuneRecommendation.
//   - owner.go: the workload of a pod that exists or is being created, from its owner reference and labels
//     (OwnerOf).
//   - podname.go: the workload of a pod that is gone, from the pod's name alone (PodIndex).
//   - workload.go, rollout.go: a workload of any kind as one type, and whether it is rolling out.
//   - skip.go: what keeps attune away from it.
//   - argo_types.go, scaled_types.go: the parts that are read of Argo Rollouts and of the kinds that the chart's value
//     scaledKinds adds. argo.go and scaled.go make a Workload of them.
//   - foreign.go, quantity.go: reading what others wrote, with bounded work.
//
// It never changes an object. Start reading with OwnerOf and From.
package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"attune.io/attune/api/v1alpha1"
)

// Identity names a workload. It is comparable and can be the key of a map. The zero value names none.
type Identity struct {
	// Kind of the workload.
	Kind v1alpha1.WorkloadKind
	// Namespace and Name are those of its object.
	Namespace, Name string
}

// IdentityOf returns the workload for which a recommendation is.
func IdentityOf(rec *v1alpha1.AttuneRecommendation) Identity {
	return Identity{Kind: rec.Spec.Workload.Kind, Namespace: rec.Namespace, Name: rec.Spec.Workload.Name}
}

// String returns Kind/name, as users write it, without the namespace.
func (i Identity) String() string {
	return string(i.Kind) + "/" + i.Name
}

// maxObjectName and maxLabelValue are the API server's own limits, in bytes.
const (
	maxObjectName = 253
	maxLabelValue = 63
)

// RecommendationName returns the name of a workload's AttuneRecommendation: <kind>-<workload>, with the kind in
// lower case. A name that is longer than an object name may be is cut and ends in a hash of the whole name.
func RecommendationName(kind v1alpha1.WorkloadKind, name string) string {
	whole := strings.ToLower(string(kind)) + "-" + name
	if len(whole) <= maxObjectName {
		return whole
	}
	tail := "-" + digest(whole)
	return trimEnd(whole[:maxObjectName-len(tail)]) + tail
}

// RecommendationName returns the name of the workload's AttuneRecommendation.
func (i Identity) RecommendationName() string {
	return RecommendationName(i.Kind, i.Name)
}

// RecommendationLabels returns the labels by which an AttuneRecommendation is found. A long workload name is cut
// to the length of a label, so compare spec.workload before you rely on the result.
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

// trimEnd removes characters with which neither a name nor a label value may end, and which may not be before a
// dash.
func trimEnd(s string) string {
	return strings.TrimRight(s, "-._")
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:10]
}
