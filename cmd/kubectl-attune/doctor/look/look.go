// Package look reads what the doctor judges. It only reads, with the user's own rights, and keeps going where one of them is
// missing: what was not read carries its error.
package look

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/doctor"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/decision"
)

// list reads the objects of one kind. items are those of the list.
func list[T any](ctx context.Context, c client.Client, into client.ObjectList, items *[]T, options ...client.ListOption) doctor.Read[T] {
	err := c.List(ctx, into, options...)
	return doctor.Read[T]{Value: *items, Err: err}
}

// At reads everything in the scope. version is that of the API server.
func At(ctx context.Context, c client.Client, scope doctor.Scope, version string) *doctor.Seen {
	seen := &doctor.Seen{Scope: scope, Version: version}
	in, operator := client.InNamespace(scope.Namespace), client.InNamespace(scope.Operator)

	nodes := &corev1.NodeList{}
	seen.Nodes = list(ctx, c, nodes, &nodes.Items)
	seen.CRDs = definitions(ctx, c)
	seen.Rights = rights(ctx, c, scope)

	deployments := &appsv1.DeploymentList{}
	seen.Installed.Deployments = list(ctx, c, deployments, &deployments.Items, operator, client.MatchingLabels{doctor.Selector: doctor.SelectorValue})
	seen.Installed.Leases = lease(ctx, c, scope.Operator)
	endpoints := &discoveryv1.EndpointSliceList{}
	seen.Installed.Slices = list(ctx, c, endpoints, &endpoints.Items, operator)
	seen.Admission = admission(ctx, c)

	policies := &v1alpha1.AttunePolicyList{}
	seen.Policies = list(ctx, c, policies, &policies.Items, in)
	clusters := &v1alpha1.AttuneClusterPolicyList{}
	if c.List(ctx, clusters) == nil {
		seen.ClusterPolicies = clusters.Items
	}
	recommendations := &v1alpha1.AttuneRecommendationList{}
	seen.Recommendations = list(ctx, c, recommendations, &recommendations.Items, in)
	seen.Namespaces = namespaces(ctx, c, scope.Namespace)
	seen.Neighbours = neighbours(ctx, c, in)
	return seen
}

// lease reads the one by which the operator's replicas choose their leader. That there is none is no error.
func lease(ctx context.Context, c client.Client, operator string) (read doctor.Read[coordinationv1.Lease]) {
	var one coordinationv1.Lease
	err := c.Get(ctx, client.ObjectKey{Namespace: operator, Name: decision.LeaseName}, &one)
	switch {
	case err == nil:
		read.Value = []coordinationv1.Lease{one}
	case !apierrors.IsNotFound(err):
		read.Err = err
	}
	return read
}

// definitions reads the metadata of all CustomResourceDefinitions: their schemas are large.
func definitions(ctx context.Context, c client.Client) doctor.Read[metav1.PartialObjectMetadata] {
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	return list(ctx, c, all, &all.Items)
}

// rights asks the API server for each right by itself. A SelfSubjectAccessReview is created and not stored.
func rights(ctx context.Context, c client.Client, scope doctor.Scope) []doctor.Right {
	all := doctor.Needed(scope)
	for i := range all {
		r := &all[i]
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace,
			},
		}}
		r.Err = c.Create(ctx, review)
		r.Allowed = review.Status.Allowed
	}
	return all
}

// admission reads what judges or changes objects.
func admission(ctx context.Context, c client.Client) (a doctor.Admission) {
	mutating := &admissionv1.MutatingWebhookConfigurationList{}
	a.Mutating = list(ctx, c, mutating, &mutating.Items)
	validating := &admissionv1.ValidatingWebhookConfigurationList{}
	a.Validating = list(ctx, c, validating, &validating.Items)
	policies := &admissionv1.ValidatingAdmissionPolicyList{}
	a.Policies = list(ctx, c, policies, &policies.Items)
	return a
}

// namespaces reads one namespace, or all of them.
func namespaces(ctx context.Context, c client.Client, name string) (read doctor.Read[corev1.Namespace]) {
	if name == "" {
		all := &corev1.NamespaceList{}
		return list(ctx, c, all, &all.Items)
	}
	var one corev1.Namespace
	if read.Err = c.Get(ctx, client.ObjectKey{Name: name}, &one); read.Err == nil {
		read.Value = []corev1.Namespace{one}
	}
	return read
}

// neighbours reads what acts on the same pods.
func neighbours(ctx context.Context, c client.Client, in client.ListOption) (n doctor.Neighbours) {
	vpas := &unstructured.UnstructuredList{}
	kind := autoscale.VPAKind
	kind.Kind += "List"
	vpas.SetGroupVersionKind(kind)
	n.VPAs = list(ctx, c, vpas, &vpas.Items, in)
	hpas := &autoscalingv2.HorizontalPodAutoscalerList{}
	n.HPAs = list(ctx, c, hpas, &hpas.Items, in)
	quotas := &corev1.ResourceQuotaList{}
	n.Quotas = list(ctx, c, quotas, &quotas.Items, in)
	pods := &corev1.PodList{}
	n.Pods = list(ctx, c, pods, &pods.Items, in)
	return n
}
