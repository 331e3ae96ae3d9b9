package workload

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"attune.io/attune/internal/clip"
)

// These are the fields of an Argo Rollout (argoproj.io/v1alpha1) that attune reads. Importing the project would add its
// whole controller as a dependency. The API server validates little of a Rollout's pod template. An unreadable part is
// left empty, with a reason (Unreadable, ReadForeign).

// ArgoGroupVersion is the group and version of Rollouts.
var ArgoGroupVersion = schema.GroupVersion{Group: "argoproj.io", Version: "v1alpha1"}

// ArgoResource is the resource name of Rollouts in the API.
const ArgoResource = "rollouts"

// AddArgoToScheme adds Rollout and RolloutList to a scheme.
func AddArgoToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(ArgoGroupVersion.WithKind("Rollout"), &ArgoRollout{})
	scheme.AddKnownTypeWithName(ArgoGroupVersion.WithKind("RolloutList"), &ArgoRolloutList{})
	metav1.AddToGroupVersion(scheme, ArgoGroupVersion)
	return nil
}

// +kubebuilder:object:root=true
// +kubebuilder:object:generate=true

// ArgoRollout is a workload that replaces its pods gradually. Its ReplicaSets own the pods.
type ArgoRollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ArgoRolloutSpec   `json:"spec,omitempty"`
	Status ArgoRolloutStatus `json:"status,omitempty"`
}

// +kubebuilder:object:generate=true

// ArgoRolloutSpec is the desired state.
type ArgoRolloutSpec struct {
	// Replicas is the desired number of pods; nil means 1.
	Replicas *int32 `json:"replicas,omitempty"`
	// Template of the pods; empty if WorkloadRef names the object that has it.
	Template corev1.PodTemplateSpec `json:"template,omitempty"`
	// WorkloadRef names the object that has the template; nil if the Rollout has it.
	WorkloadRef *WorkloadRef `json:"workloadRef,omitempty"`
	// Unreadable is why the spec is empty; empty if the spec was read.
	Unreadable string `json:"-"`
}

// +kubebuilder:object:generate=true

// WorkloadRef names the object in the Rollout's namespace that has its pod template.
type WorkloadRef struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
}

// +kubebuilder:object:generate=true

// ArgoRolloutStatus is the progress of a Rollout.
type ArgoRolloutStatus struct {
	// ObservedGeneration is the newest generation that the controller has seen, as a decimal number. Older versions of
	// the controller wrote a hash.
	ObservedGeneration string `json:"observedGeneration,omitempty"`
	// CurrentPodHash and StableRS are the template hashes of the newest revision and of the stable one. They are equal
	// if no rollout is in progress.
	CurrentPodHash string `json:"currentPodHash,omitempty"`
	StableRS       string `json:"stableRS,omitempty"`
	// Phase and Message are for display, such as Paused and CanaryPauseStep.
	Phase   string `json:"phase,omitempty"`
	Message string `json:"message,omitempty"`
	// Abort is true after a rollout was aborted: the stable revision runs.
	Abort bool `json:"abort,omitempty"`
}

// UnmarshalJSON decodes a spec. It never returns an error: an unreadable spec is left empty.
func (s *ArgoRolloutSpec) UnmarshalJSON(data []byte) error {
	type plain ArgoRolloutSpec
	read, unreadable := ReadForeign[plain](data)
	read.Unreadable = unreadable
	*s = ArgoRolloutSpec(read)
	return nil
}

// UnmarshalJSON decodes a status. It never returns an error: an unreadable status is left empty, as for a new Rollout.
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
