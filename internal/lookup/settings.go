// Package lookup reads objects with a client for the loops, the webhooks and the plugin. Pure packages interpret these
// objects: policy, autoscale and workload.
//
//   - settings.go: reads the defaults and resolves the settings of a policy (Reader). All callers get settings from
//     here.
//   - inscope.go: the cluster policies of a namespace, with their status (PoliciesInScope).
//   - autoscalers.go: HPAs and VPAs of a workload, from the cache. It follows whether the cluster serves
//     VerticalPodAutoscalers: their CRD may be missing, appear later, and be removed again.
//   - owners.go: the pods of a workload, the recommendation of a pod, and the CronJob of a Job: the name of a Job does
//     not show whether a CronJob owns it.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
)

// Reader reads policies and defaults. Operator is what the installation allows.
type Reader struct {
	Client   client.Reader
	Operator policy.Operator
	// Clusterwide is true if the operator uses AttuneClusterPolicies. An operator with watched namespaces, or without
	// the kind in the API server, does not use them.
	Clusterwide bool
	// Admission knows in which namespaces the webhook sizes new pods; nil: not known.
	Admission *workload.Admission
}

// Settings returns the resolved settings of a policy. With an error that Invalid recognizes they are good enough to
// finish in-flight resizes; the error lasts until a user corrects a field. Any other error needs a retry.
func (r Reader) Settings(ctx context.Context, p *v1alpha1.AttunePolicy) (policy.Settings, error) {
	cluster, namespace, err := r.defaults(ctx, p)
	if err != nil {
		return policy.Settings{}, err
	}
	return policy.ResolveAllowed(cluster, namespace, p, r.Operator)
}

// Fields returns the resolved settings of a policy, and the origin of each.
func (r Reader) Fields(ctx context.Context, p *v1alpha1.AttunePolicy) ([]policy.Field, error) {
	cluster, namespace, err := r.defaults(ctx, p)
	if err != nil {
		return nil, err
	}
	return policy.Fields(cluster, namespace, p, r.Operator), nil
}

// defaults reads the AttuneDefaults and the AttuneNamespaceDefaults for a policy.
func (r Reader) defaults(ctx context.Context, p *v1alpha1.AttunePolicy) (*v1alpha1.AttuneDefaults, *v1alpha1.AttuneNamespaceDefaults, error) {
	cluster, err := Found(ctx, r.Client, types.NamespacedName{Name: v1alpha1.DefaultsName}, &v1alpha1.AttuneDefaults{})
	if err != nil {
		return nil, nil, fmt.Errorf("reading AttuneDefaults: %w", err)
	}
	key := types.NamespacedName{Namespace: p.Namespace, Name: v1alpha1.DefaultsName}
	namespace, err := Found(ctx, r.Client, key, &v1alpha1.AttuneNamespaceDefaults{})
	if err != nil {
		return nil, nil, fmt.Errorf("reading AttuneNamespaceDefaults of %s: %w", p.Namespace, err)
	}
	return cluster, namespace, nil
}

// Invalid returns the reason why settings are invalid; nil for any other error.
func Invalid(err error) *policy.InvalidConfig {
	invalid, _ := errors.AsType[*policy.InvalidConfig](err)
	return invalid
}

// Found returns the object with that name, or nil if it does not exist.
func Found[T client.Object](ctx context.Context, reader client.Reader, key types.NamespacedName, object T) (T, error) {
	var none T
	err := reader.Get(ctx, key, object)
	if err != nil {
		return none, client.IgnoreNotFound(err)
	}
	return object, nil
}

// Policy returns the policy with a name in a namespace: an AttunePolicy, or the instance of a cluster policy. If the
// cluster policy does not select the namespace, the instance counts as being deleted. A policy that does not exist is a
// NotFound error. An instance shares its settings with the cache.
func (r Reader) Policy(ctx context.Context, key types.NamespacedName) (*v1alpha1.AttunePolicy, error) {
	name, ok := policy.ClusterName(key.Name)
	if !ok {
		p := &v1alpha1.AttunePolicy{}
		return p, r.Client.Get(ctx, key, p)
	}
	used, beyond, err := r.ClusterPolicies(ctx)
	if err != nil {
		return nil, err
	}
	named := func(p v1alpha1.AttuneClusterPolicy) bool { return p.Name == name }
	if i := slices.IndexFunc(used, named); i >= 0 {
		labels, found, err := r.labelsOf(ctx, key.Namespace)
		return policy.Instance(&used[i], key.Namespace, found && r.selects(&used[i], key.Namespace, labels)), err
	}
	if i := slices.IndexFunc(beyond, named); i >= 0 {
		return policy.Instance(&beyond[i], key.Namespace, false), nil
	}
	return nil, apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("attuneclusterpolicies").GroupResource(), name)
}

// Of returns the policy of a recommendation.
func (r Reader) Of(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (*v1alpha1.AttunePolicy, error) {
	return r.Policy(ctx, types.NamespacedName{Namespace: rec.Namespace, Name: policy.NameOf(rec.Spec.Policy)})
}

// ClusterPolicies returns the used cluster policies and the ones beyond the limit (policy.UsedClusterPolicies). Both
// are empty if this operator uses no cluster policies. The objects belong to the cache.
func (r Reader) ClusterPolicies(ctx context.Context) (used, beyond []v1alpha1.AttuneClusterPolicy, err error) {
	if !r.Clusterwide {
		return nil, nil, nil
	}
	list := &v1alpha1.AttuneClusterPolicyList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing cluster policies: %w", err)
	}
	used, beyond = policy.UsedClusterPolicies(list.Items)
	return used, beyond, nil
}

// Instances returns the instances of the cluster policies that select a namespace, or of all namespaces ("").
func (r Reader) Instances(ctx context.Context, namespace string) (out []v1alpha1.AttunePolicy, err error) {
	used, _, err := r.ClusterPolicies(ctx)
	if err != nil || len(used) == 0 {
		return nil, err
	}
	if namespace != "" {
		labels, found, err := r.labelsOf(ctx, namespace)
		if err != nil || !found {
			return nil, err
		}
		return r.instances(used, namespace, labels), nil
	}
	namespaces, err := r.Namespaces(ctx)
	for i := range namespaces {
		out = append(out, r.instances(used, namespaces[i].Name, namespaces[i].Labels)...)
	}
	return out, err
}

func (r Reader) instances(used []v1alpha1.AttuneClusterPolicy, namespace string, labels map[string]string) (out []v1alpha1.AttunePolicy) {
	for i := range used {
		if r.selects(&used[i], namespace, labels) {
			out = append(out, *policy.Instance(&used[i], namespace, true))
		}
	}
	return out
}

// Namespaces lists the namespaces of the cluster. The objects belong to the cache.
func (r Reader) Namespaces(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	return list.Items, nil
}

// selects reports whether a cluster policy selects a namespace with these labels. With an invalid selector it selects
// no namespace.
func (r Reader) selects(of *v1alpha1.AttuneClusterPolicy, namespace string, labels map[string]string) bool {
	scope, _ := policy.ScopeOf(of, r.Operator.Namespace)
	return scope.Selects(namespace, labels)
}

// labelsOf returns the labels of a namespace; false if it does not exist.
func (r Reader) labelsOf(ctx context.Context, namespace string) (map[string]string, bool, error) {
	of := Namespace()
	err := r.Client.Get(ctx, client.ObjectKey{Name: namespace}, of, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return nil, false, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	return of.Labels, err == nil, nil
}

// NotSized returns why the webhook does not size new pods of a namespace although the settings do; empty: it sizes them,
// or it is not known.
func (r Reader) NotSized(ctx context.Context, namespace string, settings *policy.Settings) string {
	object := Namespace()
	if r.Admission == nil || !settings.SizesNewPods() || r.Client.Get(ctx, client.ObjectKey{Name: namespace}, object, client.UnsafeDisableDeepCopy) != nil {
		return ""
	}
	return r.Admission.NotSized(namespace, object.Labels)
}
