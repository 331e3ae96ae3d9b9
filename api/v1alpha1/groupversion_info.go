package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "attune.io", Version: "v1alpha1"}

	// SchemeBuilder collects the functions that add this package to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the five kinds to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&AttunePolicy{}, &AttunePolicyList{},
		&AttuneClusterPolicy{}, &AttuneClusterPolicyList{},
		&AttuneDefaults{}, &AttuneDefaultsList{},
		&AttuneNamespaceDefaults{}, &AttuneNamespaceDefaultsList{},
		&AttuneRecommendation{}, &AttuneRecommendationList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
