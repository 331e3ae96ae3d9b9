package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PolicyKind is the kind of a policy.
// +kubebuilder:validation:Enum=AttunePolicy;AttuneClusterPolicy
type PolicyKind string

const (
	PolicyKindNamespaced PolicyKind = "AttunePolicy"
	PolicyKindCluster    PolicyKind = "AttuneClusterPolicy"
)

// ClusterTargetRef selects the workloads of a cluster policy in each of its namespaces.
type ClusterTargetRef struct {
	// Kind of the workloads, e.g. Deployment. Default: all kinds.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in ['Deployment', 'StatefulSet', 'DaemonSet', 'ReplicaSet', 'Job', 'CronJob', 'Rollout'] || self.matches('^[A-Za-z][A-Za-z0-9]*[.][a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$')",message="targetRef.kind must be Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob, Rollout, or KIND.GROUP of a kind that the chart's value scaledKinds adds, such as CloneSet.apps.kruise.io"
	Kind WorkloadKind `json:"kind,omitempty"`

	// Selector selects workloads by their labels, e.g. matchLabels: {tier: api}. An empty selector is rejected: leave
	// it out to select all workloads. Default: all workloads.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="targetRef.selector must not be empty: leave it out to target every workload, or set matchLabels, e.g. {tier: api}"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// NamespaceName is the name of a namespace.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
type NamespaceName string

// AttuneClusterPolicySpec sets which workloads of which namespaces attune right-sizes, and how. An empty spec selects
// all workloads of all namespaces except kube-system, kube-public, kube-node-lease and attune's own.
// +kubebuilder:validation:XValidation:rule="!has(self.metricsSource) || !has(self.metricsSource.prometheus)",message="metricsSource.prometheus must not be set in an AttuneClusterPolicy, which has no namespace for Secrets: set it in the AttuneDefaults"
type AttuneClusterPolicySpec struct {
	// Namespaces selects namespaces by name, e.g. [shop, web]. kube-system, kube-public, kube-node-lease and attune's
	// own namespace are selected only if they are listed here. Default: all other namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	Namespaces []NamespaceName `json:"namespaces,omitempty"`

	// NamespaceSelector selects namespaces by their labels, e.g. matchLabels: {stage: production}. If namespaces is
	// set as well, both must select a namespace. An empty selector is rejected: leave it out to select all
	// namespaces. Default: all namespaces.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="namespaceSelector must not be empty: leave it out to select every namespace, or set matchLabels, e.g. {stage: production}"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// TargetRef selects the workloads. Default: all workloads.
	// +optional
	TargetRef *ClusterTargetRef `json:"targetRef,omitempty"`

	PolicySettings `json:",inline"`

	// Weight sets the order of precedence if several cluster policies select a workload: the highest weight takes
	// precedence, then the oldest policy, then the name. From 1 to 1000, e.g. 200. An AttunePolicy in the namespace takes
	// precedence over all cluster policies. Built-in default: 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Weight *int32 `json:"weight,omitempty"`
}

// AttuneClusterPolicyStatus reports on the policy over all namespaces, in a bounded size. It is only for readers: no
// part of attune depends on it.
type AttuneClusterPolicyStatus struct {
	// ObservedGeneration is the generation of the policy that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Mode is the effective updateStrategy.type, after the AttuneDefaults. AttuneNamespaceDefaults may set another
	// mode in their namespace.
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

	// Namespaces counts the selected namespaces.
	// +optional
	Namespaces *NamespaceCounts `json:"namespaces,omitempty"`

	// Workloads counts the workloads that the policy sizes, over all namespaces.
	// +optional
	Workloads *WorkloadCounts `json:"workloads,omitempty"`

	// Unready lists namespaces in which the policy sizes workloads and is not ready, by name. Only the first ones are
	// listed.
	// +optional
	// +listType=atomic
	Unready []UnreadyNamespace `json:"unready,omitempty"`

	// Savings estimates what the recommendations save, over all namespaces.
	// +optional
	Savings *Savings `json:"savings,omitempty"`
}

// NamespaceCounts counts namespaces.
type NamespaceCounts struct {
	// Selected counts the namespaces that the policy selects.
	Selected int32 `json:"selected"`
	// Ready counts the selected namespaces in which the policy sizes workloads and is ready.
	Ready int32 `json:"ready"`
}

// UnreadyNamespace is a namespace in which a policy is not ready, and why.
type UnreadyNamespace struct {
	// Namespace is the name of the namespace.
	Namespace string `json:"namespace"`
	// Reason of the condition Ready in the namespace.
	Reason string `json:"reason"`
	// Message of the condition Ready in the namespace, cut to 256 bytes.
	// +optional
	Message string `json:"message,omitempty"`
}

// AttuneClusterPolicy right-sizes workloads of many namespaces. An AttunePolicy that selects a workload takes
// precedence over it.
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
// +kubebuilder:printcolumn:name="CPU Savings",type=string,JSONPath=`.status.savings.cpuRequestReduction`,priority=1
// +kubebuilder:printcolumn:name="Mem Savings",type=string,JSONPath=`.status.savings.memoryRequestReduction`,priority=1
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
