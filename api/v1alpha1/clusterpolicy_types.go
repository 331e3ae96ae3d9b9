package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PolicyKind is the kind of a policy.
// +kubebuilder:validation:Enum=AttunePolicy;AttuneClusterPolicy
type PolicyKind string

const (
	PolicyKindNamespaced PolicyKind = "AttunePolicy"
	PolicyKindCluster    PolicyKind = "AttuneClusterPolicy"
)

// ClusterTargetRef names the workloads of a cluster policy, in each of its namespaces.
type ClusterTargetRef struct {
	// Kind of the workloads; absent: all kinds.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in ['Deployment', 'StatefulSet', 'DaemonSet', 'ReplicaSet', 'Job', 'CronJob', 'Rollout'] || self.matches('^[A-Za-z][A-Za-z0-9]*[.][a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$')",message="targetRef.kind must be Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob, Rollout, or KIND.GROUP of a kind that the chart's value scaledKinds adds, such as CloneSet.apps.kruise.io"
	Kind WorkloadKind `json:"kind,omitempty"`

	// Selector on the labels of workloads. An empty one is refused: leave it out to mean all.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="targetRef.selector must not be empty: leave it out to target every workload, or set matchLabels, e.g. {tier: api}"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// NamespaceName is the name of a namespace.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
type NamespaceName string

// AttuneClusterPolicySpec says which workloads of which namespaces are right-sized, and how. An empty one recommends
// for all workloads of all namespaces but kube-system, kube-public, kube-node-lease and the operator's own.
// +kubebuilder:validation:XValidation:rule="!has(self.metricsSource) || !has(self.metricsSource.prometheus)",message="metricsSource.prometheus has no place in an AttuneClusterPolicy, which has no Secrets of its own: set it in the AttuneDefaults"
type AttuneClusterPolicySpec struct {
	// Namespaces by name. The namespaces kube-system, kube-public, kube-node-lease and the operator's own are selected
	// only if they are named here.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	Namespaces []NamespaceName `json:"namespaces,omitempty"`

	// NamespaceSelector on the labels of namespaces. Together with namespaces, both have to select a namespace. An empty
	// one is refused: leave it out to mean all.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="namespaceSelector must not be empty: leave it out to select every namespace, or set matchLabels, e.g. {stage: production}"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// TargetRef names the workloads; absent: all of them.
	// +optional
	TargetRef *ClusterTargetRef `json:"targetRef,omitempty"`

	PolicySettings `json:",inline"`

	// Weight decides where several cluster policies select a workload: the highest wins, then the oldest, then the name.
	// An AttunePolicy of the namespace wins over all of them. Built-in default: 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Weight *int32 `json:"weight,omitempty"`
}

// AttuneClusterPolicyStatus is a report over all namespaces, of bounded size. Nothing reads it to do its work.
type AttuneClusterPolicyStatus struct {
	// ObservedGeneration is the generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Mode is the effective update type, after the AttuneDefaults. The defaults of a namespace may set another one there.
	// +optional
	Mode UpdateType `json:"mode,omitempty"`

	// Conditions: Ready, Resizing, Degraded, ResizeBlocked.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Namespaces counts the selected namespaces.
	// +optional
	Namespaces *NamespaceCounts `json:"namespaces,omitempty"`

	// Workloads counts what the policy sizes, over all namespaces.
	// +optional
	Workloads *WorkloadCounts `json:"workloads,omitempty"`

	// Unready are the first namespaces in which the policy sizes workloads and is not ready, by name.
	// +optional
	// +listType=atomic
	Unready []UnreadyNamespace `json:"unready,omitempty"`

	// Savings estimate over all namespaces.
	// +optional
	Savings *Savings `json:"savings,omitempty"`
}

// NamespaceCounts counts namespaces.
type NamespaceCounts struct {
	// Selected by the policy.
	Selected int32 `json:"selected"`
	// Ready of those: the policy sizes workloads in them.
	Ready int32 `json:"ready"`
}

// UnreadyNamespace says why a policy is not ready in a namespace.
type UnreadyNamespace struct {
	// Namespace is its name.
	Namespace string `json:"namespace"`
	// Reason is that of the condition Ready.
	Reason string `json:"reason"`
	// Message is that of the condition Ready, cut to 256 bytes.
	// +optional
	Message string `json:"message,omitempty"`
}

// AttuneClusterPolicy right-sizes workloads of many namespaces. An AttunePolicy of a namespace that selects a workload
// goes before it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=acp,categories=attune
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.mode`
// +kubebuilder:printcolumn:name="Namespaces",type=integer,JSONPath=`.status.namespaces.selected`
// +kubebuilder:printcolumn:name="Workloads",type=integer,JSONPath=`.status.workloads.discovered`
// +kubebuilder:printcolumn:name="Recs",type=integer,JSONPath=`.status.workloads.withRecommendations`
// +kubebuilder:printcolumn:name="Resized",type=integer,JSONPath=`.status.workloads.resized`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="CPU Saved",type=string,JSONPath=`.status.savings.cpuRequestReduction`,priority=1
// +kubebuilder:printcolumn:name="Mem Saved",type=string,JSONPath=`.status.savings.memoryRequestReduction`,priority=1
type AttuneClusterPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AttuneClusterPolicySpec   `json:"spec,omitempty"`
	Status AttuneClusterPolicyStatus `json:"status,omitempty"`
}

// AttuneClusterPolicyList is a list of cluster policies.
// +kubebuilder:object:root=true
type AttuneClusterPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AttuneClusterPolicy `json:"items"`
}
