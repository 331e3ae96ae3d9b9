package workload

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/owners"
)

// storer writes the status of a recommendation, and guards with finalizers what an open record depends on.
type storer struct{ *Controller }

// store writes the status under the resourceVersion that the decision was made on, and only if it has
// news. A conflict is returned as an error. The finalizer exists exactly while a record is open, and is
// added before the first record is written: otherwise the object could be deleted between the two, and no
// process would know how to restore its pods.
func (c storer) store(ctx context.Context, rec *v1alpha1.AttuneRecommendation, status v1alpha1.AttuneRecommendationStatus) error {
	if err := c.guard(ctx, rec, len(status.Records) > 0); err != nil {
		return err
	}
	name := client.ObjectKeyFromObject(rec)
	if noNews(rec.Status, status) {
		rec.Status = status
		c.steps.note(name, status.Records)
		return nil
	}
	c.stored.write(rec, status)
	rec.Status = status
	if err := c.Client.Status().Update(ctx, rec); err != nil {
		c.refused(ctx, rec, err)
		return fmt.Errorf("storing the status of AttuneRecommendation %s: %w", rec.Name, err)
	}
	c.stored.reached(rec, echoFor, c.Clock.Now())
	c.steps.note(name, rec.Status.Records)
	return nil
}

// refused finds out whether a write was refused because the cache is behind another writer: every write at
// that version would be refused too, so that the loop waits for the cache. A conflict for another reason
// is over with the next try.
func (c storer) refused(ctx context.Context, rec *v1alpha1.AttuneRecommendation, err error) {
	if !apierrors.IsConflict(err) {
		return
	}
	newest := &v1alpha1.AttuneRecommendation{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(rec), newest); err == nil && newest.ResourceVersion != rec.ResourceVersion {
		c.stored.reached(newest, refusedFor, c.Clock.Now())
	}
}

// guard adds the finalizer before a record is stored, and removes it after the last one is closed. In a
// namespace that is being deleted it is removed at once: the pods go too, and the right to write there may
// go first, so that a finalizer would block the deletion for ever.
func (c storer) guard(ctx context.Context, rec *v1alpha1.AttuneRecommendation, open bool) error {
	terminating, err := owners.Terminating(ctx, c.Client, rec.Namespace)
	if err != nil {
		return err
	}
	open = open && !terminating
	if open && len(rec.Status.Records) == 0 {
		if err := c.guardPolicy(ctx, rec); err != nil {
			return err
		}
	}
	adds, removes := open && rec.DeletionTimestamp == nil, !open && len(rec.Status.Records) == 0 || terminating
	if !adds && !removes {
		return nil
	}
	before := rec.DeepCopy()
	changed, err := loop.Guard(ctx, c.Client, rec, v1alpha1.RecordsFinalizer, adds)
	if err != nil {
		c.refused(ctx, before, err)
		return fmt.Errorf("guarding AttuneRecommendation %s with a finalizer: %w", rec.Name, err)
	}
	if changed {
		c.stored.reached(rec, echoFor, c.Clock.Now())
	}
	return nil
}

// guardPolicy adds a finalizer to the policy before a first record is stored, because the record's watch
// is finished by its settings. The policy loop removes it after the last record. A policy that is being
// deleted gets none, as it begins nothing.
func (c storer) guardPolicy(ctx context.Context, rec *v1alpha1.AttuneRecommendation) error {
	var p client.Object = &v1alpha1.AttunePolicy{}
	key := types.NamespacedName{Namespace: rec.Namespace, Name: rec.Spec.Policy.Name}
	if rec.Spec.Policy.Kind == v1alpha1.PolicyKindCluster {
		if !c.Settings.Clusterwide {
			return nil
		}
		p, key.Namespace = &v1alpha1.AttuneClusterPolicy{}, ""
	}
	err := c.Client.Get(ctx, key, p)
	if apierrors.IsNotFound(err) || err == nil && p.GetDeletionTimestamp() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := loop.Guard(ctx, c.Client, p, v1alpha1.CleanupFinalizer, true); err != nil {
		return fmt.Errorf("guarding policy %s with a finalizer: %w", p.GetName(), err)
	}
	return nil
}
