package workload

import (
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
)

// Sized are the kinds of workloads that an operator sizes: all built-in kinds, and these. It is immutable.
type Sized struct {
	// Rollouts is true if the API server serves Argo Rollouts.
	Rollouts bool
	// Scaled are the kinds of the chart value scaledKinds, each with the version that is read.
	Scaled []schema.GroupVersionKind
	// Left are the kinds in scaledKinds that cannot be sized.
	Left []Left
}

// Left is a kind in scaledKinds that cannot be sized.
type Left struct {
	// Resource as in scaledKinds, and its API group.
	Resource, Group string
	// Why is the reason, such as "the API server does not serve it".
	Why string
}

// Kinds returns all sized kinds.
func (s Sized) Kinds() []v1alpha1.WorkloadKind {
	kinds := slices.Clone(Kinds)
	if !s.Rollouts {
		kinds = slices.DeleteFunc(kinds, func(k v1alpha1.WorkloadKind) bool { return k == v1alpha1.KindRollout })
	}
	for _, kind := range s.Scaled {
		kinds = append(kinds, scaledKind(kind.GroupKind()))
	}
	return kinds
}

// Has reports whether a kind is sized.
func (s Sized) Has(kind v1alpha1.WorkloadKind) bool {
	if kind == v1alpha1.KindRollout {
		return s.Rollouts
	}
	return slices.Contains(Kinds, kind) || s.index(kind) >= 0
}

// NewObject returns an empty object of a kind; nil if the kind is not sized.
func (s Sized) NewObject(kind v1alpha1.WorkloadKind) Object {
	if i := s.index(kind); i >= 0 {
		return NewScaled(s.Scaled[i])
	}
	return NewObject(kind)
}

// NewList returns an empty list of a kind; nil if the kind is not sized.
func (s Sized) NewList(kind v1alpha1.WorkloadKind) List {
	if i := s.index(kind); i >= 0 {
		return NewScaledList(s.Scaled[i])
	}
	return NewList(kind)
}

func (s Sized) index(kind v1alpha1.WorkloadKind) int {
	return slices.IndexFunc(s.Scaled, func(of schema.GroupVersionKind) bool { return scaledKind(of.GroupKind()) == kind })
}

// scaledName is the name of a kind in scaledKinds as a policy writes it: KIND.GROUP, such as CloneSet.apps.kruise.io.
// The group has a dot: groups without a dot belong to Kubernetes.
var scaledName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)

// IsScaled reports whether a kind has the format of a kind in scaledKinds. The name becomes a label value, so it has at
// most 63 characters.
func IsScaled(kind v1alpha1.WorkloadKind) bool {
	return len(kind) <= maxLabelValue && kind != scaledKind(GroupKindOf(v1alpha1.KindRollout)) && scaledName.MatchString(string(kind))
}

// KindOf returns the kind of a group and kind, as owner references and autoscalers name it; false if the kind cannot be
// a workload.
func KindOf(of schema.GroupKind) (v1alpha1.WorkloadKind, bool) {
	kind := v1alpha1.WorkloadKind(of.Kind)
	if slices.Contains(Kinds, kind) && GroupKindOf(kind) == of {
		return kind, true
	}
	kind = scaledKind(of)
	return kind, IsScaled(kind)
}

func scaledKind(of schema.GroupKind) v1alpha1.WorkloadKind { return v1alpha1.WorkloadKind(of.String()) }

// ofScaled reads a workload of a kind in scaledKinds; false if its kind cannot be a workload.
func ofScaled(o *ScaledObject) (Workload, bool) {
	kind, ok := KindOf(o.GroupVersionKind().GroupKind())
	if !ok {
		return Workload{}, false
	}
	// An unknown number of pods counts as 1: attune never evicts such a pod.
	w := read(kind, o, o.Spec.Template, ptr.Deref(o.Spec.Replicas, 1), progressOfScaled(o))
	if w.Unreadable = o.Spec.Unreadable; w.Template == nil && w.Unreadable == "" {
		w.Unreadable = "it has no spec"
	}
	return w, true
}

// progressOfScaled reads the counts of a status like those of a StatefulSet. If the kind does not have them, a rollout
// cannot be excluded and counts as in progress.
func progressOfScaled(o *ScaledObject) Rollout {
	status := o.Status
	if status.ObservedGeneration == nil {
		return Rollout{InProgress: true, Reason: "its status has no observedGeneration, so a rollout may be in progress"}
	}
	if r := unobserved(o.Generation, *status.ObservedGeneration); r.InProgress {
		return r
	}
	switch {
	case status.UpdateRevision != "" && status.UpdateRevision == status.CurrentRevision:
		return Rollout{}
	case status.UpdatedReplicas != nil && status.Replicas != nil:
		r := outdated(*status.UpdatedReplicas, *status.Replicas, "")
		r.Updated = 0 // a step of the kind's own canary must not be taken for a rollout that stands
		return r
	}
	return Rollout{InProgress: true, Reason: "its status has no updatedReplicas, so a rollout may be in progress"}
}
