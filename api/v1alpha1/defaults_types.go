package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DefaultsSpec holds the defaults of policies.
type DefaultsSpec struct {
	PolicySettings `json:",inline"`

	// CostPricing sets the prices that turn savings into money, e.g. {cpuPerCoreHour: "0.031"}. Default: no prices,
	// so that policies report savings in cores and bytes only.
	// +optional
	CostPricing *CostPricing `json:"costPricing,omitempty"`
}

// AttuneDefaults holds the defaults of the cluster. attune reads only the object named default.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ad,categories=attune
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="attune reads only the object named default: set metadata.name to default"
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AttuneDefaults struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DefaultsSpec `json:"spec,omitempty"`
}

// AttuneDefaultsList is a list of cluster defaults.
// +kubebuilder:object:root=true
type AttuneDefaultsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AttuneDefaults `json:"items"`
}

// AttuneNamespaceDefaults holds the defaults of a namespace. attune reads only the object named default.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=andf,categories=attune
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="attune reads only the object named default: set metadata.name to default"
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AttuneNamespaceDefaults struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DefaultsSpec `json:"spec,omitempty"`
}

// AttuneNamespaceDefaultsList is a list of namespace defaults.
// +kubebuilder:object:root=true
type AttuneNamespaceDefaultsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AttuneNamespaceDefaults `json:"items"`
}
