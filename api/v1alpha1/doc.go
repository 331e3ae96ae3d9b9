// Package v1alpha1 defines attune's five kinds: AttunePolicy, AttuneClusterPolicy, AttuneDefaults,
// AttuneNamespaceDefaults and AttuneRecommendation. It is plain data: types, validation rules, and the types and
// reasons of conditions and events. It has no logic.
//
// No field has an OpenAPI default: the API server would store it in the object, and no lower layer could override it
// again. Only internal/policy holds the built-in values.
//
// +kubebuilder:object:generate=true
// +groupName=attune.io
package v1alpha1
