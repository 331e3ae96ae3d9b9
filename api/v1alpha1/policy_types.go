package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadKind is a kind of workload that a policy can target: Deployment, StatefulSet, DaemonSet, ReplicaSet, Job,
// CronJob, Rollout (of Argo Rollouts, argoproj.io), or KIND.GROUP of a kind that the operator's owner adds, such as
// CloneSet.apps.kruise.io. It is the value of a label.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
type WorkloadKind string

const (
	KindDeployment  WorkloadKind = "Deployment"
	KindStatefulSet WorkloadKind = "StatefulSet"
	KindDaemonSet   WorkloadKind = "DaemonSet"
	KindReplicaSet  WorkloadKind = "ReplicaSet"
	KindJob         WorkloadKind = "Job"
	KindCronJob     WorkloadKind = "CronJob"
	KindRollout     WorkloadKind = "Rollout"
)

// TargetRef names the workloads of a policy, in its own namespace. With neither name nor selector it
// means every workload of the kind.
// +kubebuilder:validation:XValidation:rule="!(has(self.name) && has(self.selector))",message="targetRef takes at most one of name and selector"
type TargetRef struct {
	// Kind of the workloads.
	// +kubebuilder:validation:XValidation:rule="self in ['Deployment', 'StatefulSet', 'DaemonSet', 'ReplicaSet', 'Job', 'CronJob', 'Rollout'] || self.matches('^[A-Za-z][A-Za-z0-9]*[.][a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$')",message="targetRef.kind must be Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob, Rollout, or KIND.GROUP of a kind that the chart's value scaledKinds adds, such as CloneSet.apps.kruise.io"
	Kind WorkloadKind `json:"kind"`

	// Name of one workload.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// Selector on the labels of workloads. An empty one is refused: leave it out to mean all.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="targetRef.selector must not be empty: leave it out to target every workload of the kind, or set matchLabels, e.g. {tier: api}"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// AttunePolicySpec says which workloads are right-sized and how.
type AttunePolicySpec struct {
	// TargetRef names the workloads.
	TargetRef TargetRef `json:"targetRef"`

	PolicySettings `json:",inline"`

	// Weight decides where several policies select a workload: the highest wins, then the oldest, then
	// the name. Built-in default: 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Weight *int32 `json:"weight,omitempty"`
}

// AttunePolicyStatus is a report of bounded size. Nothing reads it to do its work.
type AttunePolicyStatus struct {
	// ObservedGeneration is the generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Mode is the effective update type, after the defaults.
	// +optional
	Mode UpdateType `json:"mode,omitempty"`

	// Conditions: Ready, Resizing, Degraded, ResizeBlocked.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Workloads counts what the policy selects.
	// +optional
	Workloads *WorkloadCounts `json:"workloads,omitempty"`

	// Recommendations of the first workloads, by name; AttuneRecommendation objects have all of them.
	// +optional
	// +listType=atomic
	Recommendations []RecommendationSummary `json:"recommendations,omitempty"`

	// RecommendationsOmitted counts the workloads that are left out above.
	// +optional
	RecommendationsOmitted int32 `json:"recommendationsOmitted,omitempty"`

	// Conflicts name the workloads that another policy sizes, first ones only.
	// +optional
	// +listType=atomic
	Conflicts []PolicyConflict `json:"conflicts,omitempty"`

	// Savings estimate of the applied and the open recommendations.
	// +optional
	Savings *Savings `json:"savings,omitempty"`

	// ResizeHistory holds the last resizes over all workloads, newest first.
	// +optional
	// +listType=atomic
	ResizeHistory []HistoryEntry `json:"resizeHistory,omitempty"`
}

// WorkloadCounts counts workloads.
type WorkloadCounts struct {
	// Discovered workloads that the policy selects and wins.
	Discovered int32 `json:"discovered"`
	// WithRecommendations of those.
	WithRecommendations int32 `json:"withRecommendations"`
	// Resized: at least one pod runs at a kept size. The strategy Node keeps none: there a pod was resized, and that was
	// not undone since.
	Resized int32 `json:"resized"`
	// Pending: a resize is open.
	Pending int32 `json:"pending"`
}

// RecommendationSummary is one workload's recommendation.
type RecommendationSummary struct {
	// Workload is its name.
	Workload string `json:"workload"`
	// Kind of the workload.
	Kind WorkloadKind `json:"kind"`
	// Containers in the order of the pod template.
	// +listType=atomic
	Containers []ContainerSummary `json:"containers"`
}

// ContainerSummary compares what a container's template asks with what is recommended.
type ContainerSummary struct {
	// Name of the container.
	Name string `json:"name"`
	// Current is what the pod template asks for.
	Current Resources `json:"current"`
	// Recommended is what is recommended.
	Recommended Resources `json:"recommended"`
	// Confidence from 0 to 1, such as "0.92".
	Confidence string `json:"confidence"`
	// DataPoints are the steps with data in the window.
	DataPoints int32 `json:"dataPoints"`
	// LastUpdated is the dataUntil of the workload's AttuneRecommendation.
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
}

// Resources are the requests and limits of a container; an absent one is not set.
type Resources struct {
	// CPURequest in cores.
	// +optional
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// CPULimit in cores.
	// +optional
	CPULimit *resource.Quantity `json:"cpuLimit,omitempty"`
	// MemoryRequest in bytes.
	// +optional
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// MemoryLimit in bytes.
	// +optional
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
}

// PolicyConflict names a workload that another policy sizes.
type PolicyConflict struct {
	// Workload as Kind/name.
	Workload string `json:"workload"`
	// Winner is the name of the policy that sizes it.
	Winner string `json:"winner"`
	// Reason, such as "weight 200 over 100".
	Reason string `json:"reason"`
}

// Savings compare the templates' requests with the recommended ones, over all replicas. Jobs and CronJobs, whose pods
// run part-time, and what is held are left out. Negative values are growth.
type Savings struct {
	// CPURequestReduction in cores.
	CPURequestReduction resource.Quantity `json:"cpuRequestReduction"`
	// MemoryRequestReduction in bytes.
	MemoryRequestReduction resource.Quantity `json:"memoryRequestReduction"`
	// EstimatedMonthlySavings at the prices of the AttuneDefaults, for 730 hours.
	// +optional
	EstimatedMonthlySavings string `json:"estimatedMonthlySavings,omitempty"`
}

// HistoryEntry is one finished resize.
type HistoryEntry struct {
	// Timestamp is when it ended.
	Timestamp metav1.Time `json:"timestamp"`
	// Workload is its name.
	Workload string `json:"workload"`
	// Pod that was resized.
	// +optional
	Pod string `json:"pod,omitempty"`
	// Container that was resized.
	Container string `json:"container"`
	// Resource: cpu, memory or cpu+memory.
	Resource string `json:"resource"`
	// From is the request before it.
	From string `json:"from"`
	// To is the request that was asked for.
	To string `json:"to"`
	// Method: InPlace or Eviction.
	Method string `json:"method"`
	// Result: Success, Failed, Reverted, Withdrawn, Superseded, Evicted.
	Result string `json:"result"`
	// Reason why it did not succeed.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// AttunePolicy right-sizes workloads of its namespace.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ap,categories=attune
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.mode`
// +kubebuilder:printcolumn:name="Workloads",type=integer,JSONPath=`.status.workloads.discovered`
// +kubebuilder:printcolumn:name="Recs",type=integer,JSONPath=`.status.workloads.withRecommendations`
// +kubebuilder:printcolumn:name="Resized",type=integer,JSONPath=`.status.workloads.resized`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="CPU Saved",type=string,JSONPath=`.status.savings.cpuRequestReduction`,priority=1
// +kubebuilder:printcolumn:name="Mem Saved",type=string,JSONPath=`.status.savings.memoryRequestReduction`,priority=1
type AttunePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AttunePolicySpec   `json:"spec"`
	Status AttunePolicyStatus `json:"status,omitempty"`
}

// AttunePolicyList is a list of policies.
// +kubebuilder:object:root=true
type AttunePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AttunePolicy `json:"items"`
}
