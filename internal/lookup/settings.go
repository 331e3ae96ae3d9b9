// Package lookup reads objects with a client for the loops, the webhooks and the plugin. What these objects mean is decided by
// pure packages: policy, autoscale and workload.
//
//   - settings.go: what a policy's settings rest on; it resolves them (Reader). There is no other way to the settings that hold.
//   - inscope.go: the cluster policies of a namespace, with their status (PoliciesInScope).
//   - autoscalers.go: HPAs and VPAs of a workload, from the cache. It follows whether the cluster has VerticalPodAutoscalers at
//     all: their CRD may be missing, appear later, and go away again.
//   - owners.go: the pods of a workload, the recommendation of a pod, and the CronJob of a Job: a Job's name does not tell a
//     CronJob's Job from one that stands alone.
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
)

// Reader reads the defaults and knows what the operator allows.
type Reader struct {
	Client   client.Reader
	Operator policy.Operator
	// Clusterwide: AttuneClusterPolicies are used. An operator that watches some namespaces only, or whose API server
	// does not serve them, uses none.
	Clusterwide bool
}

// Settings are those that hold for a policy. With an error that Invalid recognises they are still good
// enough to finish the watches that are open; it lasts until a field is corrected. Any other error is
// worth a retry.
func (r Reader) Settings(ctx context.Context, p *v1alpha1.AttunePolicy) (policy.Settings, error) {
	cluster, namespace, err := r.defaults(ctx, p)
	if err != nil {
		return policy.Settings{}, err
	}
	return policy.ResolveAllowed(cluster, namespace, p, r.Operator)
}

// Fields are the settings that hold for a policy, and where each comes from.
func (r Reader) Fields(ctx context.Context, p *v1alpha1.AttunePolicy) ([]policy.Field, error) {
	cluster, namespace, err := r.defaults(ctx, p)
	if err != nil {
		return nil, err
	}
	return policy.Fields(cluster, namespace, p, r.Operator), nil
}

// defaults reads what the settings of a policy rest on.
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

// Invalid is the reason why settings cannot hold, nil if the error is of another kind.
func Invalid(err error) *policy.InvalidConfig {
	var invalid *policy.InvalidConfig
	if errors.As(err, &invalid) {
		return invalid
	}
	return nil
}

// Found is the object of that name, nil if there is none.
func Found[T client.Object](ctx context.Context, reader client.Reader, key types.NamespacedName, object T) (T, error) {
	var none T
	err := reader.Get(ctx, key, object)
	if err != nil {
		return none, client.IgnoreNotFound(err)
	}
	return object, nil
}

// Policy returns the policy of a name in a namespace: an AttunePolicy, or the instance of a cluster policy, which is
// one that is being deleted where the namespace is not selected. A policy that does not exist is a NotFound error. An
// instance shares its settings with the cache.
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

// Of returns the policy that a recommendation names.
func (r Reader) Of(ctx context.Context, rec *v1alpha1.AttuneRecommendation) (*v1alpha1.AttunePolicy, error) {
	return r.Policy(ctx, types.NamespacedName{Namespace: rec.Namespace, Name: policy.NameOf(rec.Spec.Policy)})
}

// ClusterPolicies returns those that are used and those beyond the bound (policy.UsedClusterPolicies); none where
// this operator uses none. The objects are the cache's own.
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

// Instances returns the instances of the cluster policies in a namespace, or in all of them (""), that select it.
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

// Namespaces lists the namespaces of the cluster. The objects are the cache's own.
func (r Reader) Namespaces(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	return list.Items, nil
}

// selects reports whether a cluster policy selects a namespace with these labels. The scope of one whose selector is wrong
// is empty.
func (r Reader) selects(of *v1alpha1.AttuneClusterPolicy, namespace string, labels map[string]string) bool {
	scope, _ := policy.ScopeOf(of, r.Operator.Namespace)
	return scope.Selects(namespace, labels)
}

// labelsOf returns the labels of a namespace; false: it does not exist.
func (r Reader) labelsOf(ctx context.Context, namespace string) (map[string]string, bool, error) {
	of := Namespace()
	err := r.Client.Get(ctx, client.ObjectKey{Name: namespace}, of, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return nil, false, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	return of.Labels, err == nil, nil
}
