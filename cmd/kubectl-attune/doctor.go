package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/doctor"
)

// newDoctor returns the command doctor. Its finding is a problem. It needs no rights: results that it may not read are
// unknown, and the answer says so.
func newDoctor(env *environment) *cobra.Command {
	var operator string
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check the cluster for problems with attune",
		Long: "Check the cluster for problems with attune: versions, CustomResourceDefinitions, your permissions, the operator, its\n" +
			"webhooks, policies and their usage data, other autoscalers, quotas and policy engines. Each result is one sentence,\n" +
			"with a command that fixes the problem or shows more. A check that cannot read its objects is unknown, never ok.\n\n" +
			"The exit code is 2 if there are problems. Warnings do not change it.",
		Example:           "  kubectl attune doctor -A\n  kubectl attune doctor -n shop -o json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), env, operator) },
	}
	command.Flags().StringVar(&operator, "operator-namespace", "attune-system", "Namespace of the operator")
	return command
}

// runDoctor reads the cluster and prints the results.
func runDoctor(ctx context.Context, env *environment, operator string) error {
	if env.scope.selector != "" {
		return errors.New("doctor does not support -l: use -n for one namespace, or -A for all")
	}
	r, err := env.reach()
	if err != nil {
		return err
	}
	// If this request fails, all others would fail too.
	version, err := env.cluster.Version()
	if err != nil {
		return fmt.Errorf("reading the version of the API server: %w", err)
	}
	seen := readCluster(ctx, r, doctor.Scope{Now: env.now(), Namespace: r.namespace, Operator: operator}, version)
	lease, renewed, err := readLease(ctx, r, operator, env)
	seen.Installed.Leases.Err, seen.Installed.Renewed = err, renewed
	if lease != nil {
		seen.Installed.Leases.Value = []coordinationv1.Lease{*lease}
	}
	seen.Probes = probes(ctx, r, seen)
	answer := doctor.Examine(seen)
	if err := env.print(answer); err != nil {
		return err
	}
	if answer.Problems > 0 {
		return errFinding
	}
	return nil
}

// listed lists the objects of one kind.
func listed[T any](ctx context.Context, c client.Client, into client.ObjectList, options ...client.ListOption) (read doctor.Read[T]) {
	read.Err = c.List(ctx, into, options...)
	// The callback returns no error, so EachListItem does not return one either.
	_ = meta.EachListItem(into, func(object runtime.Object) error {
		read.Value = append(read.Value, *any(object).(*T))
		return nil
	})
	return read
}

// mostWorkloads limits the workloads of one kind that the doctor reads.
const mostWorkloads = 2000

// first lists the first mostWorkloads objects of one kind.
func first[T any](ctx context.Context, c client.Client, into client.ObjectList, options ...client.ListOption) doctor.Read[T] {
	read := listed[T](ctx, c, into, append(options, client.Limit(mostWorkloads))...)
	read.Cut = into.GetContinue() != ""
	return read
}

// probeTimeout limits one dry run of the doctor. It is longer than the timeouts of the webhooks.
const probeTimeout = 10 * time.Second

// probes creates the objects of the doctor's probes as dry runs, with the user's own rights. The API server stores nothing.
func probes(ctx context.Context, c client.Client, seen *doctor.Seen) (all doctor.Probes) {
	all.Policy.Namespace, all.Pod.Namespace = seen.ProbeNamespaces()
	create := func(probe *doctor.Probe, object client.Object) {
		if probe.Namespace == "" {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		probe.Err = c.Create(ctx, object, client.DryRunAll)
		probe.Answered = object.GetAnnotations()[v1alpha1.ProbeAnnotation] == v1alpha1.ProbeAnswered
	}
	create(&all.Policy, doctor.PolicyProbe(all.Policy.Namespace))
	create(&all.Pod, doctor.PodProbe(all.Pod.Namespace))
	return all
}

// readCluster reads everything that the doctor checks. It uses the user's own rights and continues without a missing right:
// a value that was not read has its error. version is the version of the API server.
func readCluster(ctx context.Context, c client.Client, scope doctor.Scope, version string) *doctor.Seen {
	in, operator := client.InNamespace(scope.Namespace), client.InNamespace(scope.Operator)
	return &doctor.Seen{
		Scope: scope, Version: version,
		Nodes:  listed[corev1.Node](ctx, c, &corev1.NodeList{}),
		CRDs:   definitions(ctx, c),
		Rights: rights(ctx, c, scope),
		Installed: doctor.Installed{
			Deployments: listed[appsv1.Deployment](ctx, c, &appsv1.DeploymentList{}, operator, client.MatchingLabels{doctor.Selector: doctor.SelectorValue}),
			Slices:      listed[discoveryv1.EndpointSlice](ctx, c, &discoveryv1.EndpointSliceList{}, operator),
		},
		Admission: doctor.Admission{
			Mutating:   listed[admissionv1.MutatingWebhookConfiguration](ctx, c, &admissionv1.MutatingWebhookConfigurationList{}),
			Validating: listed[admissionv1.ValidatingWebhookConfiguration](ctx, c, &admissionv1.ValidatingWebhookConfigurationList{}),
			Policies:   listed[admissionv1.ValidatingAdmissionPolicy](ctx, c, &admissionv1.ValidatingAdmissionPolicyList{}),
		},
		Policies:        listed[v1alpha1.AttunePolicy](ctx, c, &v1alpha1.AttunePolicyList{}, in),
		ClusterPolicies: listed[v1alpha1.AttuneClusterPolicy](ctx, c, &v1alpha1.AttuneClusterPolicyList{}).Value,
		Recommendations: listed[v1alpha1.AttuneRecommendation](ctx, c, &v1alpha1.AttuneRecommendationList{}, in),
		Workloads: doctor.Workloads{
			Deployments:  first[appsv1.Deployment](ctx, c, &appsv1.DeploymentList{}, in),
			StatefulSets: first[appsv1.StatefulSet](ctx, c, &appsv1.StatefulSetList{}, in),
			DaemonSets:   first[appsv1.DaemonSet](ctx, c, &appsv1.DaemonSetList{}, in),
		},
		Namespaces: namespaces(ctx, c, scope.Namespace),
		Neighbours: doctor.Neighbours{
			VPAs:   listed[unstructured.Unstructured](ctx, c, newVPAList(), in),
			HPAs:   listed[autoscalingv2.HorizontalPodAutoscaler](ctx, c, &autoscalingv2.HorizontalPodAutoscalerList{}, in),
			Quotas: listed[corev1.ResourceQuota](ctx, c, &corev1.ResourceQuotaList{}, in),
			Pods:   listed[corev1.Pod](ctx, c, &corev1.PodList{}, in),
		},
	}
}

// definitions reads only the metadata of all CustomResourceDefinitions, because their schemas are large.
func definitions(ctx context.Context, c client.Client) doctor.Read[metav1.PartialObjectMetadata] {
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	return listed[metav1.PartialObjectMetadata](ctx, c, all)
}

// rights asks the API server for each right. It does not store a SelfSubjectAccessReview.
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

// namespaces reads one namespace, or all if name is empty.
func namespaces(ctx context.Context, c client.Client, name string) (read doctor.Read[corev1.Namespace]) {
	if name == "" {
		return listed[corev1.Namespace](ctx, c, &corev1.NamespaceList{})
	}
	var one corev1.Namespace
	if read.Err = c.Get(ctx, client.ObjectKey{Name: name}, &one); read.Err == nil {
		read.Value = []corev1.Namespace{one}
	}
	return read
}
