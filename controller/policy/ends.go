package policy

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/policy"
)

// What is found of an instance of a cluster policy goes into parts instead of its status and finalizer: from these the
// cluster policy's own are written.

// write patches the status.
func (c *Controller) write(ctx context.Context, p *v1alpha1.AttunePolicy, status v1alpha1.AttunePolicyStatus) error {
	if policy.OfCluster(p) {
		c.parts.note(p, status)
		return nil
	}
	return patchStatus(ctx, c.Client, p, &p.Status, status, "policy")
}

// patchStatus patches the status of an object, only if something changed. An object that is gone meanwhile is no error.
func patchStatus[S any](ctx context.Context, to client.Client, o client.Object, has *S, wanted S, kind string) error {
	if equality.Semantic.DeepEqual(*has, wanted) {
		return nil
	}
	before := o.DeepCopyObject().(client.Object)
	*has = wanted
	if err := to.Status().Patch(ctx, o, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of %s %s: %w", kind, o.GetName(), err)
	}
	return nil
}

// undiscovered reports workloads or autoscalers that could not be listed.
func (c *Controller) undiscovered(ctx context.Context, p *v1alpha1.AttunePolicy, cause error) error {
	if policy.OfCluster(p) {
		c.parts.unfinished(p, v1alpha1.ReasonWorkloadDiscoveryFailed, cause)
		return nil
	}
	return c.write(ctx, p, unready(p, p.Status, v1alpha1.ReasonWorkloadDiscoveryFailed, sentence(cause)))
}

// guard sets or removes the policy's finalizer: it exists as long as a pod is resized or watched by the
// policy's settings (open), and no longer. A policy that nothing depends on can therefore be deleted while
// the operator is not running.
//
// The workload loop adds the finalizer before it stores a first record. This function adds it only where
// records were already open when the workload came to this policy, and removes it. In a namespace that is
// being deleted it is removed at once: the pods go too, and the right to write there may go first.
func (c *Controller) guard(ctx context.Context, p *v1alpha1.AttunePolicy, open bool) error {
	if open {
		terminating, err := lookup.Terminating(ctx, c.Client, p.Namespace)
		if err != nil {
			return err
		}
		open = !terminating
	}
	if policy.OfCluster(p) {
		c.parts.opened(p, open)
		return nil
	}
	if _, err := loop.Guard(ctx, c.Client, p, v1alpha1.CleanupFinalizer, open); err != nil {
		return fmt.Errorf("guarding policy %s with a finalizer: %w", p.Name, err)
	}
	return nil
}

// watched reports whether a pod is being resized or watched for one of the recommendations.
func watched(recs map[string]*v1alpha1.AttuneRecommendation) bool {
	for _, rec := range recs {
		if len(rec.Status.Records) > 0 {
			return true
		}
	}
	return false
}

// refuse reports settings that cannot be used (condition Ready, reason InvalidConfig, and one event).
// Nothing is applied, and new pods keep their template's size until the settings are corrected. An error
// that is not about the settings is returned.
func (c *Controller) refuse(ctx context.Context, p *v1alpha1.AttunePolicy, cause error) (reconcile.Result, error) {
	invalid := lookup.Invalid(cause)
	if invalid == nil {
		return c.unfinished(p, cause)
	}
	recs, err := c.letGo(ctx, p)
	return c.unused(ctx, p, recs, err, v1alpha1.ReasonInvalidConfig, invalid.Error())
}

// unused ends a look at a policy that sizes nothing for a reason; the condition Ready says why. recs are the
// recommendations that were released, err is what kept them from it.
func (c *Controller) unused(ctx context.Context, p *v1alpha1.AttunePolicy, recs map[string]*v1alpha1.AttuneRecommendation, err error, reason, why string) (reconcile.Result, error) {
	if err == nil {
		err = c.guard(ctx, p, watched(recs))
	}
	if err != nil {
		return c.unfinished(p, err)
	}
	// A cluster policy has one event, not one for each of its namespaces (summarizer).
	if reason == v1alpha1.ReasonInvalidConfig && !policy.OfCluster(p) && !saysInvalid(p.Status.Conditions, why) {
		c.Events.Send(p, nil, event.Warning(v1alpha1.EventInvalidConfig, "%s", why))
	}
	return reconcile.Result{}, c.write(ctx, p, unready(p, v1alpha1.AttunePolicyStatus{Conditions: p.Status.Conditions}, reason, why))
}

// unfinished ends a look with an error. The part of an instance says so: the status of a cluster policy waits for a
// part of each namespace, and one namespace, such as one with an admission rule of its own, must not hold up the rest.
func (c *Controller) unfinished(p *v1alpha1.AttunePolicy, err error) (reconcile.Result, error) {
	reason := v1alpha1.ReasonWorkloadDiscoveryFailed
	if ofTheObject(err) {
		reason = v1alpha1.ReasonRecommendationRefused
	}
	c.parts.unfinished(p, reason, err)
	return reconcile.Result{}, err
}

// finish removes the finalizer of a deleted policy once no pod is watched for it, and forgets an instance of a cluster
// policy. Until then it looks
// again every resync; the workload loop finishes the watches meanwhile.
func (c *Controller) finish(ctx context.Context, p *v1alpha1.AttunePolicy) (reconcile.Result, error) {
	recs, err := c.end(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	if watched(recs) {
		terminating, err := lookup.Terminating(ctx, c.Client, p.Namespace)
		if err != nil || !terminating {
			c.parts.opened(p, true)
			return reconcile.Result{RequeueAfter: resync}, err
		}
	}
	if policy.OfCluster(p) {
		c.parts.Forget(client.ObjectKeyFromObject(p))
		return reconcile.Result{}, c.forget(ctx, p.Namespace)
	}
	return reconcile.Result{}, c.guard(ctx, p, false)
}

// end stops everything that is done for a policy: its interest in usage and its recommendations. It
// returns these, so that the caller can see whether a pod is still watched.
func (c *Controller) end(ctx context.Context, p *v1alpha1.AttunePolicy) (map[string]*v1alpha1.AttuneRecommendation, error) {
	c.History.Forget(p.Namespace, p.Name)
	c.decided.Forget(client.ObjectKeyFromObject(p))
	follow(c.Recent, p, policy.Settings{}, matched{}, nil)
	return c.letGo(ctx, p)
}

// letGo releases all that a policy sizes: its metrics disappear, and its recommendations lose their seeds
// and targets. It returns the recommendations as they were before.
func (c *Controller) letGo(ctx context.Context, p *v1alpha1.AttunePolicy) (map[string]*v1alpha1.AttuneRecommendation, error) {
	c.published.forget(client.ObjectKeyFromObject(p))
	c.refused.Forget(client.ObjectKeyFromObject(p))
	store := recommendations{c.Client}
	recs, err := store.of(ctx, p)
	if err != nil {
		return nil, err
	}
	return recs, store.release(ctx, recs, matched{}.whyReleased)
}
