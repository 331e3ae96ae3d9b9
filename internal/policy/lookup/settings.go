// Package lookup reads what a policy's settings rest on and resolves them, for the loops and for the plugin: one way to
// the settings that hold.
package lookup

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	cluster, err := found(ctx, r.Client, types.NamespacedName{Name: v1alpha1.DefaultsName}, &v1alpha1.AttuneDefaults{})
	if err != nil {
		return nil, nil, fmt.Errorf("reading AttuneDefaults: %w", err)
	}
	key := types.NamespacedName{Namespace: p.Namespace, Name: v1alpha1.DefaultsName}
	namespace, err := found(ctx, r.Client, key, &v1alpha1.AttuneNamespaceDefaults{})
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

// found is the object of that name, nil if there is none.
func found[T client.Object](ctx context.Context, reader client.Reader, key types.NamespacedName, object T) (T, error) {
	var none T
	err := reader.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	return object, nil
}
