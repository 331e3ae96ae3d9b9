package workload

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The part that attune reads of workloads whose kinds the operator's owner adds: custom resources with a /scale subresource and
// a pod template, such as CloneSets. One Go type is for all of them, since the same fields of each are read; an object says of
// which kind it is. Their CRDs may check little. A spec that cannot be read is left empty and says why (Unreadable,
// ReadForeign).

// AddScaledToScheme adds a kind to a scheme. One that is there already stays.
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

// ScaledObject is a workload.
type ScaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ScaledSpec   `json:"spec,omitempty"`
	Status ScaledStatus `json:"status,omitempty"`
}

// +kubebuilder:object:generate=true

// ScaledSpec is what is wanted.
type ScaledSpec struct {
	// Replicas wanted; nil: the kind does not have the number here.
	Replicas *int32 `json:"replicas,omitempty"`
	// Template of the pods, with at least one container; nil: there is none that can be read.
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
	// Unreadable is why there is no template.
	Unreadable string `json:"-"`
}

// +kubebuilder:object:generate=true

// ScaledStatus is how far the pods are those of the newest template.
type ScaledStatus struct {
	// ObservedGeneration is the newest generation that its controller has seen; nil: the kind does not say.
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
	// Replicas is how many pods there are, UpdatedReplicas how many of them run the newest template; nil: the kind
	// does not say.
	Replicas        *int32 `json:"replicas,omitempty"`
	UpdatedReplicas *int32 `json:"updatedReplicas,omitempty"`
	// CurrentRevision and UpdateRevision are the same where all pods run the newest template; empty: the kind does
	// not say.
	CurrentRevision string `json:"currentRevision,omitempty"`
	UpdateRevision  string `json:"updateRevision,omitempty"`
}

// UnmarshalJSON reads a spec. It never returns an error: a part that cannot be read is left empty.
func (s *ScaledSpec) UnmarshalJSON(data []byte) error {
	type plain ScaledSpec
	read, unreadable := ReadForeign[plain](data)
	switch {
	case unreadable != "":
		read.Unreadable = unreadable
	case read.Template == nil:
		read.Unreadable = "it has no spec.template"
	case len(read.Template.Spec.Containers) == 0:
		// Another thing of the same name, such as the template of a virtual machine.
		read.Template, read.Unreadable = nil, "its spec.template has no containers"
	}
	*s = ScaledSpec(read)
	return nil
}

// UnmarshalJSON reads a status; one that cannot be read stays empty. It never returns an error.
func (s *ScaledStatus) UnmarshalJSON(data []byte) error {
	type plain ScaledStatus
	read, _ := ReadForeign[plain](data)
	*s = ScaledStatus(read)
	return nil
}

// GetObjectKind implements runtime.Object. Decoders take the kind off what they decoded into a Go type, which of this
// type would leave nothing that says what it is: an empty kind is not set.
func (o *ScaledObject) GetObjectKind() schema.ObjectKind { return keptKind{&o.TypeMeta} }

// keptKind is a kind that is not taken off.
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
