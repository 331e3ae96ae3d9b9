// Package workload finds the workload of a pod and reads the fields of a workload that decisions need. Callers pass in
// API objects. Webhook, controller and plugin share it, so all of them find the same workload for a pod.
//
// Its parts:
//   - identity.go: the name of a workload and of its AttuneRecommendation.
//   - shared.go: workloads with the same identity, such as one Job per run, which share a history.
//   - owner.go: the workload of a pod that exists or is being created, from its owner reference and labels (OwnerOf).
//   - podname.go: the workload of a deleted pod, from the pod's name (PodIndex).
//   - workload.go, rollout.go: a workload of any kind as one type, and its rollout status.
//   - skip.go: whether attune skips the workload.
//   - argo_types.go, scaled_types.go: the fields that attune reads of Argo Rollouts and of the kinds in the chart value
//     scaledKinds. argo.go and scaled.go convert them to a Workload.
//   - foreign.go, quantity.go: decoding of objects from other programs, with bounded work.
//
// It never changes an object. Start reading with OwnerOf and From.
package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"attune.io/attune/api/v1alpha1"
)

// Identity names a workload. It is comparable and can be a map key. The zero value names no workload.
type Identity struct {
	// Kind of the workload.
	Kind v1alpha1.WorkloadKind
	// Namespace and Name of the workload.
	Namespace, Name string
}

// IdentityOf returns the workload of a recommendation.
func IdentityOf(rec *v1alpha1.AttuneRecommendation) Identity {
	return Identity{Kind: rec.Spec.Workload.Kind, Namespace: rec.Namespace, Name: rec.Spec.Workload.Name}
}

// String returns Kind/name without the namespace, as users write it.
func (i Identity) String() string {
	return string(i.Kind) + "/" + i.Name
}

// maxObjectName and maxLabelValue are the limits of the API server, in bytes.
const (
	maxObjectName = 253
	maxLabelValue = 63
)

// RecommendationName returns the name of a workload's AttuneRecommendation: <kind>-<workload>, with the kind in lower
// case. A name above the limit for object names is cut and ends in a hash of the whole name.
func RecommendationName(kind v1alpha1.WorkloadKind, name string) string {
	whole := strings.ToLower(string(kind)) + "-" + name
	if shared, ok := strings.CutPrefix(name, sharedPrefix); ok {
		whole = sharedObject(kind, shared)
	}
	if len(whole) <= maxObjectName {
		return whole
	}
	digest := sha256.Sum256([]byte(whole))
	tail := "-" + hex.EncodeToString(digest[:])[:10]
	return trimEnd(whole[:maxObjectName-len(tail)]) + tail
}

// RecommendationName returns the name of the workload's AttuneRecommendation.
func (i Identity) RecommendationName() string {
	return RecommendationName(i.Kind, i.Name)
}

// RecommendationLabels returns the labels of the workload's AttuneRecommendation. A long workload name is cut to the
// length of a label value, so compare spec.workload before you rely on the result.
func (i Identity) RecommendationLabels() map[string]string {
	name := strings.TrimPrefix(i.Name, sharedPrefix)
	if len(name) > maxLabelValue {
		name = trimEnd(name[:maxLabelValue])
	}
	return map[string]string{
		v1alpha1.WorkloadKindLabel: string(i.Kind),
		v1alpha1.WorkloadNameLabel: name,
	}
}

// trimEnd removes trailing characters that may not end a name or label value, nor precede a dash.
func trimEnd(s string) string {
	return strings.TrimRight(s, "-._")
}
