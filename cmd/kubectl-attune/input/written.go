package input

import "attune.io/attune/api/v1alpha1"

// Written is an AttunePolicy as a user writes it: without status and without what the API server fills in.
type Written struct {
	APIVersion string                    `json:"apiVersion"`
	Kind       string                    `json:"kind"`
	Metadata   Metadata                  `json:"metadata"`
	Spec       v1alpha1.AttunePolicySpec `json:"spec"`
}

// Metadata of a policy.
type Metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// WritePolicy makes a policy of a spec.
func WritePolicy(of Metadata, spec v1alpha1.AttunePolicySpec) *Written {
	return &Written{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AttunePolicy", Metadata: of, Spec: spec}
}

// Acts reports whether the policy changes pods. Its type must be there.
func (w *Written) Acts() bool {
	switch *w.Spec.UpdateStrategy.Type {
	case v1alpha1.UpdateObserve, v1alpha1.UpdateRecommend:
		return false
	}
	return true
}
