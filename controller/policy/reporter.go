package policy

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/owners"
)

// reporter writes what the loop writes of a policy: its status and its finalizer.
type reporter struct{ client client.Client }

// write patches the status once, and only where something changed.
func (r reporter) write(ctx context.Context, p *v1alpha1.AttunePolicy, status v1alpha1.AttunePolicyStatus) error {
	if equality.Semantic.DeepEqual(p.Status, status) {
		return nil
	}
	before := p.DeepCopy()
	p.Status = status
	if err := r.client.Status().Patch(ctx, p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of policy %s: %w", p.Name, err)
	}
	return nil
}

// guard keeps a policy for as long as a pod is resized or watched by its settings, and no longer: a policy
// that nothing rests on can be deleted without the operator. The workload loop puts the finalizer on before
// it stores a first record. Here it is put on where records were open already when the workload became
// the policy's, and taken off.
//
// In a namespace that is being deleted it is taken off at once: the pods go too, and so may the right to write here.
func (r reporter) guard(ctx context.Context, p *v1alpha1.AttunePolicy, open bool) error {
	if open {
		terminating, err := owners.Terminating(ctx, r.client, p.Namespace)
		if err != nil {
			return err
		}
		open = !terminating
	}
	before := p.DeepCopy()
	changed := open && controllerutil.AddFinalizer(p, v1alpha1.CleanupFinalizer) ||
		!open && controllerutil.RemoveFinalizer(p, v1alpha1.CleanupFinalizer)
	if !changed {
		return nil
	}
	if err := r.client.Patch(ctx, p, locked(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("guarding policy %s with a finalizer: %w", p.Name, err)
	}
	return nil
}

// watched: a pod is being resized or watched.
func watched(recs map[string]*v1alpha1.AttuneRecommendation) bool {
	for _, rec := range recs {
		if len(rec.Status.Records) > 0 {
			return true
		}
	}
	return false
}
