package workload

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// These are the fields that attune reads of workloads of the kinds in scaledKinds: custom resources with a /scale
// subresource and a pod template, such as CloneSets. All of them have one Go type, because the same fields are read; an
// object has its kind as a value. Their CRDs may validate little. An unreadable spec is left empty, with a reason
// (Unreadable, ReadForeign).

// AddScaledToScheme adds a kind to a scheme. It has no effect if the kind was added before.
func AddScaledToScheme(scheme *runtime.Scheme, kind schema.GroupVersionKind) {
	scheme.AddKnownTypeWithName(kind, &ScaledObject{})
	scheme.AddKnownTypeWithName(listKindOf(kind), &ScaledList{})
	metav1.AddToGroupVersion(scheme, kind.GroupVersion())
}

func listKindOf(kind schema.GroupVersionKind) schema.GroupVersionKind {
	return kind.GroupVersion().WithKind(kind.Kind + "List")
}

// NewScaled returns an empty object of a kind.
func NewScaled(kind schema.GroupVersionKind) *ScaledObject {
	o := &ScaledObject{}
	o.APIVersion, o.Kind = kind.ToAPIVersionAndKind()
	return o
}

// NewScaledList returns an empty list of a kind.
func NewScaledList(kind schema.GroupVersionKind) *ScaledList {
	l := &ScaledList{}
	l.APIVersion, l.Kind = listKindOf(kind).ToAPIVersionAndKind()
	return l
}

// +kubebuilder:object:root=true
// +kubebuilder:object:generate=true

// ScaledObject is a workload of a kind in scaledKinds.
type ScaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ScaledSpec   `json:"spec,omitempty"`
	Status ScaledStatus `json:"status,omitempty"`
}

// +kubebuilder:object:generate=true

// ScaledSpec is the desired state.
type ScaledSpec struct {
	// Replicas is the desired number of pods; nil if the kind does not have the number here.
	Replicas *int32 `json:"replicas,omitempty"`
	// Template of the pods, with at least one container; nil if there is no readable template.
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
	// Unreadable is why Template is nil.
	Unreadable string `json:"-"`
}

// +kubebuilder:object:generate=true

// ScaledStatus is the progress of a rollout.
type ScaledStatus struct {
	// ObservedGeneration is the newest generation that the controller has seen; nil if not set.
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of pods, UpdatedReplicas the number of pods with the newest template; nil if not set.
	Replicas        *int32 `json:"replicas,omitempty"`
	UpdatedReplicas *int32 `json:"updatedReplicas,omitempty"`
	// CurrentRevision and UpdateRevision are equal if all pods run the newest template; empty if not set.
	CurrentRevision string `json:"currentRevision,omitempty"`
	UpdateRevision  string `json:"updateRevision,omitempty"`
}

// UnmarshalJSON decodes a spec. It never returns an error: an unreadable spec is left empty.
func (s *ScaledSpec) UnmarshalJSON(data []byte) error {
	type plain ScaledSpec
	read, unreadable := ReadForeign[plain](data)
	switch {
	case unreadable != "":
		read.Unreadable = unreadable
	case read.Template == nil:
		read.Unreadable = "it has no spec.template"
	case len(read.Template.Spec.Containers) == 0:
		// The template of another kind of object, such as a virtual machine.
		read.Template, read.Unreadable = nil, "its spec.template has no containers"
	}
	*s = ScaledSpec(read)
	return nil
}

// UnmarshalJSON decodes a status. It never returns an error: an unreadable status is left empty.
func (s *ScaledStatus) UnmarshalJSON(data []byte) error {
	type plain ScaledStatus
	read, _ := ReadForeign[plain](data)
	*s = ScaledStatus(read)
	return nil
}

// GetObjectKind implements runtime.Object. Decoders set the kind of a decoded Go type to empty, but this type needs its
// kind: so setting an empty kind has no effect.
func (o *ScaledObject) GetObjectKind() schema.ObjectKind { return keptKind{&o.TypeMeta} }

// keptKind ignores an empty kind.
type keptKind struct{ *metav1.TypeMeta }

func (n keptKind) SetGroupVersionKind(kind schema.GroupVersionKind) {
	if !kind.Empty() {
		n.TypeMeta.SetGroupVersionKind(kind)
	}
}

// +kubebuilder:object:root=true
// +kubebuilder:object:generate=true

// ScaledList is a list of objects of one kind.
type ScaledList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScaledObject `json:"items"`
}
