package policy

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/policy/lookup"
)

// refuse reports settings that cannot be used. Nothing is applied and new pods stay as they are until
// they are mended.
func (c *Controller) refuse(ctx context.Context, p *v1alpha1.AttunePolicy, cause error) (reconcile.Result, error) {
	invalid := lookup.Invalid(cause)
	if invalid == nil {
		return reconcile.Result{}, cause
	}
	recs, err := c.letGo(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := c.reporter().guard(ctx, p, watched(recs)); err != nil {
		return reconcile.Result{}, err
	}
	known := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if known == nil || known.Reason != v1alpha1.ReasonInvalidConfig || known.Message != invalid.Error() {
		c.Events.Send(p, nil, invalidConfig(invalid))
	}
	return reconcile.Result{}, c.reporter().write(ctx, p, invalidStatus(p, invalid))
}

// leaveOut a policy beyond the bound on those of a namespace: nothing is asked for it, and its workloads are let go.
func (c *Controller) leaveOut(ctx context.Context, p *v1alpha1.AttunePolicy) (reconcile.Result, error) {
	recs, err := c.end(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := c.reporter().guard(ctx, p, watched(recs)); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, c.reporter().write(ctx, p, leftOut(p))
}

// finish lets a deleted policy go once no pod is watched for it any more.
func (c *Controller) finish(ctx context.Context, p *v1alpha1.AttunePolicy) (reconcile.Result, error) {
	recs, err := c.end(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	if watched(recs) {
		terminating, err := owners.Terminating(ctx, c.Client, p.Namespace)
		if err != nil || !terminating {
			return reconcile.Result{RequeueAfter: resync}, err
		}
	}
	return reconcile.Result{}, c.reporter().guard(ctx, p, false)
}

// end of a policy that is deleted: nothing is asked for it any more, and its workloads are let go.
func (c *Controller) end(ctx context.Context, p *v1alpha1.AttunePolicy) (map[string]*v1alpha1.AttuneRecommendation, error) {
	c.History.Forget(p.Namespace, p.Name)
	c.decided.forget(client.ObjectKeyFromObject(p))
	follow(c.Recent, p, policy.Settings{}, matched{}, nil)
	return c.letGo(ctx, p)
}

// letGo of all that a policy sizes: what it recommended is published and seeded no longer.
func (c *Controller) letGo(ctx context.Context, p *v1alpha1.AttunePolicy) (map[string]*v1alpha1.AttuneRecommendation, error) {
	c.published.forget(client.ObjectKeyFromObject(p))
	c.refused.forget(client.ObjectKeyFromObject(p))
	store := recommendations{c.Client}
	recs, err := store.of(ctx, p)
	if err != nil {
		return nil, err
	}
	return recs, store.release(ctx, recs, matched{}.whyReleased)
}
