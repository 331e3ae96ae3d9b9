package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadKind is a kind of workload that a policy can target: Deployment, StatefulSet, DaemonSet, ReplicaSet, Job,
// CronJob, Rollout (Argo Rollouts, argoproj.io), or KIND.GROUP of a kind that the chart's value scaledKinds adds,
// such as CloneSet.apps.kruise.io. It must be a valid label value.
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

// TargetRef selects the workloads of a policy, in its own namespace. Without name and selector it selects every
// workload of the kind.
// +kubebuilder:validation:XValidation:rule="!(has(self.name) && has(self.selector))",message="targetRef must not have both name and selector: remove one of them"
type TargetRef struct {
	// Kind of the workloads, e.g. Deployment.
	// +kubebuilder:validation:XValidation:rule="self in ['Deployment', 'StatefulSet', 'DaemonSet', 'ReplicaSet', 'Job', 'CronJob', 'Rollout'] || self.matches('^[A-Za-z][A-Za-z0-9]*[.][a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$')",message="targetRef.kind must be Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob, Rollout, or KIND.GROUP of a kind that the chart's value scaledKinds adds, such as CloneSet.apps.kruise.io"
	Kind WorkloadKind `json:"kind"`

	// Name of one workload, e.g. web. Not together with selector. Default: all workloads of the kind.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// Selector selects workloads by their labels, e.g. matchLabels: {tier: api}. Not together with name. An empty
	// selector is rejected: leave it out to select all workloads of the kind. Default: all workloads of the kind.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="targetRef.selector must not be empty: leave it out to target every workload of the kind, or set matchLabels, e.g. {tier: api}"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// AttunePolicySpec sets which workloads attune right-sizes, and how.
type AttunePolicySpec struct {
	// TargetRef selects the workloads.
	TargetRef TargetRef `json:"targetRef"`

	PolicySettings `json:",inline"`

	// Weight sets the order of precedence if several policies select a workload: the highest weight takes precedence,
	// then the oldest policy, then the name. From 1 to 1000, e.g. 200. Built-in default: 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Weight *int32 `json:"weight,omitempty"`
}

// AttunePolicyStatus reports on the policy, in a bounded size. It is only for readers: no part of attune depends on
// it.
type AttunePolicyStatus struct {
	// ObservedGeneration is the generation of the policy that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Mode is the effective updateStrategy.type, after the defaults.
	// +optional
	Mode UpdateType `json:"mode,omitempty"`

	// Admission is Disabled if attune sizes no new pods because of the setting admission, although the mode does. Default:
	// not set.
	// +optional
	Admission Switch `json:"admission,omitempty"`

	// Conditions: Ready, Resizing, Degraded, ResizeBlocked.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Workloads counts the workloads that the policy selects.
	// +optional
	Workloads *WorkloadCounts `json:"workloads,omitempty"`

	// Recommendations for the first workloads, by name. AttuneRecommendation objects hold all of them.
	// +optional
	// +listType=atomic
	Recommendations []RecommendationSummary `json:"recommendations,omitempty"`

	// RecommendationsOmitted counts the workloads that recommendations leaves out.
	// +optional
	RecommendationsOmitted int32 `json:"recommendationsOmitted,omitempty"`

	// Conflicts lists workloads that this policy selects and another policy sizes. Only the first ones are listed.
	// +optional
	// +listType=atomic
	Conflicts []PolicyConflict `json:"conflicts,omitempty"`

	// Savings estimates what the recommendations save: templates' requests minus recommended requests.
	// +optional
	Savings *Savings `json:"savings,omitempty"`

	// ResizeHistory lists the last resizes of all workloads, newest first.
	// +optional
	// +listType=atomic
	ResizeHistory []HistoryEntry `json:"resizeHistory,omitempty"`
}

// WorkloadCounts counts workloads.
type WorkloadCounts struct {
	// Discovered counts the workloads that the policy selects and sizes, because it takes precedence there.
	Discovered int32 `json:"discovered"`
	// WithRecommendations counts those with a recommendation.
	WithRecommendations int32 `json:"withRecommendations"`
	// Resized counts workloads of which at least one pod runs with a verified size. Under the strategy Node, it
	// counts workloads with a pod that was resized and not reverted since.
	Resized int32 `json:"resized"`
	// Pending counts workloads with a resize in flight or under observation.
	Pending int32 `json:"pending"`
}

// RecommendationSummary is the recommendation for one workload.
type RecommendationSummary struct {
	// Workload is the name of the workload.
	Workload string `json:"workload"`
	// Kind of the workload.
	Kind WorkloadKind `json:"kind"`
	// Containers in the order of the pod template.
	// +listType=atomic
	Containers []ContainerSummary `json:"containers"`
}

// ContainerSummary compares the requests and limits of a container's template with the recommended ones.
type ContainerSummary struct {
	// Name of the container.
	Name string `json:"name"`
	// Current are the resources of the pod template.
	Current Resources `json:"current"`
	// Recommended are the recommended resources.
	Recommended Resources `json:"recommended"`
	// Confidence in the recommendation, from 0 to 1, e.g. "0.92".
	Confidence string `json:"confidence"`
	// DataPoints counts the samples with data in the history window.
	DataPoints int32 `json:"dataPoints"`
	// LastUpdated is spec.dataUntil of the workload's AttuneRecommendation.
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
}

// Resources are the requests and limits of a container. An absent one is not set.
type Resources struct {
	// CPURequest in cores, e.g. 250m.
	// +optional
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// CPULimit in cores, e.g. 500m.
	// +optional
	CPULimit *resource.Quantity `json:"cpuLimit,omitempty"`
	// MemoryRequest in bytes, e.g. 512Mi.
	// +optional
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// MemoryLimit in bytes, e.g. 1Gi.
	// +optional
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
}

// PolicyConflict names a workload that another policy sizes.
type PolicyConflict struct {
	// Workload as Kind/name, e.g. Deployment/web.
	Workload string `json:"workload"`
	// Winner is the name of the policy that takes precedence and sizes the workload.
	Winner string `json:"winner"`
	// Reason why that policy takes precedence, e.g. "weight 200 over 100".
	Reason string `json:"reason"`
}

// Savings compare the requests of the templates with the recommended requests, over all replicas. Jobs and CronJobs,
// whose pods run part of the time, and blocked resources are not counted. Negative values are an increase.
type Savings struct {
	// CPURequestReduction in cores, e.g. 1500m.
	CPURequestReduction resource.Quantity `json:"cpuRequestReduction"`
	// MemoryRequestReduction in bytes, e.g. 4Gi.
	MemoryRequestReduction resource.Quantity `json:"memoryRequestReduction"`
	// EstimatedMonthlySavings is the value of the reductions in 730 hours, at the prices of costPricing.
	// +optional
	EstimatedMonthlySavings string `json:"estimatedMonthlySavings,omitempty"`
}

// HistoryEntry is one finished resize.
type HistoryEntry struct {
	// Timestamp is when the resize ended.
	Timestamp metav1.Time `json:"timestamp"`
	// Workload is the name of the workload.
	Workload string `json:"workload"`
	// Pod is the pod that was resized.
	// +optional
	Pod string `json:"pod,omitempty"`
	// Container is the container that was resized.
	Container string `json:"container"`
	// Resource: cpu, memory or cpu+memory.
	Resource string `json:"resource"`
	// From is the request before the resize.
	From string `json:"from"`
	// To is the request that attune set.
	To string `json:"to"`
	// Method: InPlace or Eviction.
	Method string `json:"method"`
	// Result: Success, Failed, Reverted, Withdrawn, Superseded, Evicted.
	Result string `json:"result"`
	// Reason why the resize did not succeed.
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
// +kubebuilder:printcolumn:name="CPU Savings",type=string,JSONPath=`.status.savings.cpuRequestReduction`,priority=1
// +kubebuilder:printcolumn:name="Mem Savings",type=string,JSONPath=`.status.savings.memoryRequestReduction`,priority=1
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
