package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "attune.io", Version: "v1alpha1"}

// AddToScheme adds the five kinds to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
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
