// Package bridge says for other programs, in the language of VPA's API, how large attune makes pods: a
// VerticalPodAutoscaler (autoscaling.k8s.io/v1) for each workload that has a recommendation. Karpenter, Goldilocks,
// kube-state-metrics and dashboards read such objects. VPA's own programs must not act on them.
//
//   - object.go: what is written. These are the few fields of VPA's API that the bridge fills.
//   - vpa.go: what is said of a workload. It is pure.
//   - loop.go: a pass of the loop that keeps the objects, as long as the cluster has the kind and no program acts on them;
//     world.go: what a pass reads; write.go: what it writes; rest.go: what it leaves for a later one.
//
// Start reading with Of and Loop.Pass.
package bridge

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VPA is the part of a VerticalPodAutoscaler that is written.
type VPA struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status"`
}

// Spec names the workload, and what of the recommendation new pods are given.
type Spec struct {
	TargetRef      TargetRef       `json:"targetRef"`
	UpdatePolicy   UpdatePolicy    `json:"updatePolicy"`
	ResourcePolicy *ResourcePolicy `json:"resourcePolicy,omitempty"`
	Recommenders   []Recommender   `json:"recommenders"`
}

// TargetRef names the workload.
type TargetRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// UpdatePolicy has the mode: Initial or Off.
type UpdatePolicy struct {
	UpdateMode string `json:"updateMode"`
}

// ResourcePolicy has a policy for each container of the recommendation.
type ResourcePolicy struct {
	ContainerPolicies []ContainerPolicy `json:"containerPolicies"`
}

// ContainerPolicy says which resources new pods are given as the target has them; Mode Off: none.
type ContainerPolicy struct {
	ContainerName       string                `json:"containerName"`
	Mode                string                `json:"mode,omitempty"`
	ControlledResources []corev1.ResourceName `json:"controlledResources,omitempty"`
	StartupBoost        *StartupBoost         `json:"startupBoost,omitempty"`
}

// StartupBoost is how much more CPU a new pod is given until it has started.
type StartupBoost struct {
	CPU Boost `json:"cpu"`
}

// Boost of the type Quantity is added to the target.
type Boost struct {
	Type     string `json:"type"`
	Quantity string `json:"quantity"`
}

// Recommender is who writes the status.
type Recommender struct {
	Name string `json:"name"`
}

// Status is the recommendation.
type Status struct {
	Recommendation Recommendation `json:"recommendation"`
	Conditions     []Condition    `json:"conditions"`
}

// Recommendation has the containers in the order of the AttuneRecommendation.
type Recommendation struct {
	ContainerRecommendations []ContainerRecommendation `json:"containerRecommendations"`
}

// ContainerRecommendation has requests. A resource without a target is in none of the lists.
type ContainerRecommendation struct {
	ContainerName string `json:"containerName"`
	// Target is the request that the next pod is given; in the mode Off, the one that is recommended.
	Target corev1.ResourceList `json:"target"`
	// LowerBound and UpperBound are the request and the limit that are recommended, widened to enclose the target.
	LowerBound corev1.ResourceList `json:"lowerBound"`
	UpperBound corev1.ResourceList `json:"upperBound"`
	// UncappedTarget is the request that is recommended.
	UncappedTarget corev1.ResourceList `json:"uncappedTarget"`
}

// Condition is one of VPA's conditions.
type Condition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	Reason             string      `json:"reason"`
	Message            string      `json:"message"`
}
