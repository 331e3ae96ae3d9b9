// Package v1alpha1 holds attune's five kinds: AttunePolicy,
// AttuneClusterPolicy, AttuneDefaults, AttuneNamespaceDefaults and
// AttuneRecommendation. It is plain data: types, validation rules and the vocabulary of conditions, without logic.
//
// No field has an OpenAPI default: a default that the API server stores could
// never be overridden by a lower layer again. The built-in values live in
// internal/policy alone.
//
// +kubebuilder:object:generate=true
// +groupName=attune.io
package v1alpha1
