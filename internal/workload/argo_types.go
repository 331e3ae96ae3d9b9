package workload

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/internal/clip"
)

// The part of an Argo Rollout (argoproj.io/v1alpha1) that attune reads: the project itself would bring its whole controller
// with it. The API server checks little of a Rollout's pod template. A part that cannot be read is left empty, and says why
// (Unreadable, ReadForeign).

// ArgoGroupVersion of Rollouts.
var ArgoGroupVersion = schema.GroupVersion{Group: "argoproj.io", Version: "v1alpha1"}

// ArgoResource is how the API server names Rollouts.
const ArgoResource = "rollouts"

// AddArgoToScheme adds the kinds to a scheme.
func AddArgoToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(ArgoGroupVersion.WithKind("Rollout"), &ArgoRollout{})
	scheme.AddKnownTypeWithName(ArgoGroupVersion.WithKind("RolloutList"), &ArgoRolloutList{})
	metav1.AddToGroupVersion(scheme, ArgoGroupVersion)
	return nil
}

// +kubebuilder:object:root=true
// +kubebuilder:object:generate=true

// ArgoRollout is a workload whose pods are replaced step by step. Its ReplicaSets own the pods.
type ArgoRollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ArgoRolloutSpec   `json:"spec,omitempty"`
	Status ArgoRolloutStatus `json:"status,omitempty"`
}

// +kubebuilder:object:generate=true

// ArgoRolloutSpec is what is wanted.
type ArgoRolloutSpec struct {
	// Replicas wanted; nil: 1.
	Replicas *int32 `json:"replicas,omitempty"`
	// Template of the pods; empty where WorkloadRef names an object that has it.
	Template corev1.PodTemplateSpec `json:"template,omitempty"`
	// WorkloadRef names the object that has the template; nil: the Rollout has it.
	WorkloadRef *WorkloadRef `json:"workloadRef,omitempty"`
	// Unreadable is why the spec is empty; empty: it was read.
	Unreadable string `json:"-"`
}

// +kubebuilder:object:generate=true

// WorkloadRef names the object of the Rollout's namespace that has its pod template.
type WorkloadRef struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
}

// +kubebuilder:object:generate=true

// ArgoRolloutStatus is how far a Rollout is.
type ArgoRolloutStatus struct {
	// ObservedGeneration is the newest generation that the controller has seen, as a decimal number. Its older
	// versions wrote a hash.
	ObservedGeneration string `json:"observedGeneration,omitempty"`
	// CurrentPodHash and StableRS are the template hashes of the newest revision and of the one to which the
	// Rollout would go back; they are the same where no rollout is in progress.
	CurrentPodHash string `json:"currentPodHash,omitempty"`
	StableRS       string `json:"stableRS,omitempty"`
	// Phase and Message are what the controller tells people, such as Paused and CanaryPauseStep.
	Phase   string `json:"phase,omitempty"`
	Message string `json:"message,omitempty"`
	// Abort is true after a rollout was given up: the stable revision runs.
	Abort bool `json:"abort,omitempty"`
}

// UnmarshalJSON reads a spec. It never returns an error: a part that cannot be read is left empty.
func (s *ArgoRolloutSpec) UnmarshalJSON(data []byte) error {
	type plain ArgoRolloutSpec
	read, unreadable := ReadForeign[plain](data)
	read.Unreadable = unreadable
	*s = ArgoRolloutSpec(read)
	return nil
}

// UnmarshalJSON reads a status; one that cannot be read stays empty, as before the controller has seen the Rollout.
// It never returns an error.
func (s *ArgoRolloutStatus) UnmarshalJSON(data []byte) error {
	type plain ArgoRolloutStatus
	read, _ := ReadForeign[plain](data)
	read.Message = clip.Text(read.Message, MostForeignText)
	*s = ArgoRolloutStatus(read)
	return nil
}

// +kubebuilder:object:root=true
// +kubebuilder:object:generate=true

// ArgoRolloutList is a list of Rollouts.
type ArgoRolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ArgoRollout `json:"items"`
}
