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

// The results for an instance of a cluster policy go into parts instead of its status and finalizer. The status and
// finalizer of the cluster policy are written from these parts.

// write patches the status.
func (c *Controller) write(ctx context.Context, p *v1alpha1.AttunePolicy, status v1alpha1.AttunePolicyStatus) error {
	if policy.OfCluster(p) {
		c.parts.note(p, status)
		return nil
	}
	return patchStatus(ctx, c.Client, p, &p.Status, status, "policy")
}

// patchStatus patches the status of an object, only if something changed. An object that was deleted meanwhile is not
// an error.
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
		c.parts.unfinished(p, v1alpha1.ReasonWorkloadDiscoveryFailed, cause, c.Clock.Now())
		return nil
	}
	return c.write(ctx, p, unready(p, p.Status, v1alpha1.ReasonWorkloadDiscoveryFailed, sentence(cause), c.Clock.Now()))
}

// guard sets or removes the policy's finalizer: it exists exactly while a resize with the policy's settings is in
// flight or under observation (open). Other policies can therefore be deleted while attune is not running.
//
// The workload loop adds the finalizer before it stores a first record. This function adds it only if the workload
// came to this policy with open records, and removes it. In a terminating namespace it removes it at once: the pods
// are deleted too, and the permission to write there may be deleted first.
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
		return fmt.Errorf("updating the finalizer of policy %s: %w", p.Name, err)
	}
	return nil
}

// watched reports whether a resize is in flight or under observation for one of the recommendations.
func watched(recs map[string]*v1alpha1.AttuneRecommendation) bool {
	for _, rec := range recs {
		if len(rec.Status.Records) > 0 {
			return true
		}
	}
	return false
}

// refuse reports invalid settings (condition Ready, reason InvalidConfig, and one event). Nothing is applied, and new
// pods keep the resources of their template until the settings are corrected. It returns an error that is not about
// the settings.
func (c *Controller) refuse(ctx context.Context, p *v1alpha1.AttunePolicy, cause error) (reconcile.Result, error) {
	invalid := lookup.Invalid(cause)
	if invalid == nil {
		return c.unfinished(p, cause)
	}
	recs, err := c.releaseAll(ctx, p)
	return c.unused(ctx, p, recs, err, v1alpha1.ReasonInvalidConfig, invalid.Error())
}

// unused ends the reconcile of a policy that sizes nothing; the condition Ready has the reason. recs are the
// recommendations that were released, err is why they could not be.
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
	return reconcile.Result{}, c.write(ctx, p, unready(p, v1alpha1.AttunePolicyStatus{Conditions: p.Status.Conditions}, reason, why, c.Clock.Now()))
}

// unfinished ends a reconcile with an error. The part of an instance reports it: the status of a cluster policy needs
// a part of each namespace, and one namespace, such as one with its own admission rule, must not block the rest.
func (c *Controller) unfinished(p *v1alpha1.AttunePolicy, err error) (reconcile.Result, error) {
	reason := v1alpha1.ReasonWorkloadDiscoveryFailed
	if ofTheObject(err) {
		reason = v1alpha1.ReasonRecommendationRefused
	}
	c.parts.unfinished(p, reason, err, c.Clock.Now())
	return reconcile.Result{}, err
}

// finish removes the finalizer of a deleted policy once no pod is observed for it, and drops an instance of a cluster
// policy. Until then it is called again every resync; the workload loop completes the observations meanwhile.
func (c *Controller) finish(ctx context.Context, p *v1alpha1.AttunePolicy) (reconcile.Result, error) {
	recs, err := c.releaseWorkloads(ctx, p)
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

// releaseWorkloads stops all work for a policy: its interest in usage and its recommendations. It returns these, so
// that the caller can find pods that are still observed.
func (c *Controller) releaseWorkloads(ctx context.Context, p *v1alpha1.AttunePolicy) (map[string]*v1alpha1.AttuneRecommendation, error) {
	c.History.Forget(p.Namespace, p.Name)
	c.policies.decided.Forget(client.ObjectKeyFromObject(p))
	c.policies.paces.Forget(client.ObjectKeyFromObject(p))
	follow(c.Recent, p, policy.Settings{}, matched{}, nil)
	return c.releaseAll(ctx, p)
}

// releaseAll releases all that a policy sizes: its metrics are removed, and its recommendations lose their seeds and
// targets. It returns the recommendations as they were before.
func (c *Controller) releaseAll(ctx context.Context, p *v1alpha1.AttunePolicy) (map[string]*v1alpha1.AttuneRecommendation, error) {
	c.published.forget(client.ObjectKeyFromObject(p))
	c.policies.refused.Forget(client.ObjectKeyFromObject(p))
	store := recommendations{c.Client}
	recs, err := store.of(ctx, p)
	if err != nil {
		return nil, err
	}
	return recs, store.release(ctx, recs, matched{}.whyReleased)
}
