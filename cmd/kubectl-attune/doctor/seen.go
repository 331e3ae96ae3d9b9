package doctor

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
)

// Read is what was read of one kind, or why it could not be.
type Read[T any] struct {
	Value []T
	Err   error
}

// Scope is where the doctor looks.
type Scope struct {
	// Now is the time from which ages count.
	Now time.Time
	// Namespace whose policies and neighbours are looked at; empty: all of them.
	Namespace string
	// Operator is the namespace of the operator.
	Operator string
}

// named returns the namespace for a sentence.
func (s Scope) named() string {
	if s.Namespace == "" {
		return "any namespace"
	}
	return "namespace " + s.Namespace
}

// Seen is all that the doctor has looked at. It is only read.
type Seen struct {
	Scope
	// Version of the API server, such as v1.36.2.
	Version string
	// Nodes of the cluster.
	Nodes Read[corev1.Node]
	// CRDs are the CustomResourceDefinitions of all groups, without their schemas.
	CRDs Read[metav1.PartialObjectMetadata]
	// Rights of the caller, as the API server judges them.
	Rights []Right
	// Operator is what runs in the operator's namespace.
	Installed Installed
	// Admission is what judges or changes objects.
	Admission Admission
	// Policies and Recommendations of the scope.
	Policies        Read[v1alpha1.AttunePolicy]
	Recommendations Read[v1alpha1.AttuneRecommendation]
	// ClusterPolicies of the cluster; none where they may not be read, or the API server does not serve them.
	ClusterPolicies []v1alpha1.AttuneClusterPolicy
	// Namespaces of the scope.
	Namespaces Read[corev1.Namespace]
	// Neighbours are other objects of the scope.
	Neighbours Neighbours
}

// Installed is what runs in the operator's namespace.
type Installed struct {
	Deployments Read[appsv1.Deployment]
	Slices      Read[discoveryv1.EndpointSlice]
	// Leases are the one by which the replicas choose their leader; none where there is none.
	Leases Read[coordinationv1.Lease]
}

// Admission is what judges or changes objects when they are written.
type Admission struct {
	Mutating   Read[admissionv1.MutatingWebhookConfiguration]
	Validating Read[admissionv1.ValidatingWebhookConfiguration]
	Policies   Read[admissionv1.ValidatingAdmissionPolicy]
}

// Neighbours are objects that act on the same pods.
type Neighbours struct {
	VPAs   Read[unstructured.Unstructured]
	HPAs   Read[autoscalingv2.HorizontalPodAutoscaler]
	Quotas Read[corev1.ResourceQuota]
	Pods   Read[corev1.Pod]
}
