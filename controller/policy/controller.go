// Package policy is the loop keyed by AttunePolicy: it matches workloads,
// resolves settings, recommends, and writes each workload's AttuneRecommendation
// (its spec alone) and the policy's status.
package policy

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/effective"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/store"
)

// resync is how often a policy is looked at when nothing happened: data grows old without an event.
const resync = 5 * time.Minute

// History is what the loop needs of usage/store.
type History interface {
	Want(store.Interest)
	Forget(namespace, policy string)
	Profile(store.Key, time.Time) (recommender.Profile, bool)
	State(usage.SourceSettings) (store.State, bool)
}

// Autoscalers reads those of a namespace.
type Autoscalers interface {
	In(ctx context.Context, namespace string) (autoscale.Autoscalers, error)
}

// Controller reconciles AttunePolicy objects.
type Controller struct {
	Client  client.Client
	History History
	// Autoscalers; nil: a cluster that has none.
	Autoscalers Autoscalers
	Clock       clock.PassiveClock
	Settings    effective.Reader
}

// Reconcile brings the recommendations of one policy's workloads, and its status, up to date.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (reconcile.Result, error) {
	p := &v1alpha1.AttunePolicy{}
	if err := c.Client.Get(ctx, req.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if p.DeletionTimestamp != nil {
		return c.finish(ctx, p)
	}
	if err := c.addFinalizer(ctx, p); err != nil {
		return reconcile.Result{}, err
	}
	now := c.Clock.Now()
	settings, err := c.Settings.Settings(ctx, p)
	if err != nil {
		return c.refuse(ctx, p, err)
	}
	matched, err := c.match(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	c.History.Want(interest(p, settings, matched))
	recs, err := c.recommend(ctx, p, settings, matched.won, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := c.release(ctx, p, matched.won); err != nil {
		return reconcile.Result{}, err
	}
	source, _ := c.History.State(settings.Source)
	report := report{policy: p, settings: settings, matched: matched, recommendations: recs, source: source, now: now}
	publish(report)
	if err := c.writeStatus(ctx, p, report.status()); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: resync}, nil
}

// refuse reports settings that cannot be used. Nothing is applied and new pods stay as they are until
// they are mended.
func (c *Controller) refuse(ctx context.Context, p *v1alpha1.AttunePolicy, cause error) (reconcile.Result, error) {
	invalid := effective.Invalid(cause)
	if invalid == nil {
		return reconcile.Result{}, cause
	}
	if err := c.release(ctx, p, nil); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, c.writeStatus(ctx, p, invalidStatus(p, invalid))
}

// recommend writes the AttuneRecommendation of each workload that the policy won, on change only.
func (c *Controller) recommend(ctx context.Context, p *v1alpha1.AttunePolicy, settings policy.Settings,
	won []workload.Workload, now time.Time) ([]v1alpha1.AttuneRecommendation, error) {
	autoscalers, err := c.autoscalers(ctx, p.Namespace)
	if err != nil {
		return nil, err
	}
	var out []v1alpha1.AttuneRecommendation
	for _, w := range won {
		rec, err := c.recommendation(ctx, w)
		if err != nil {
			return nil, err
		}
		in := inputs{
			workload: w, policy: p, settings: settings, status: rec.Status, stored: rec.Spec.Containers, now: now,
			profiles: c.profiles(settings, w, now), blocked: autoscalers.Of(w).On,
		}
		wanted := desired(in)
		if rec.UID != "" && !c.complete(settings) {
			wanted = carriedOver(rec.Spec, wanted, in)
		}
		if rec.UID != "" && !worthWriting(rec.Spec, wanted, settings, now) {
			out = append(out, *rec)
			continue
		}
		rec.Spec = wanted
		if err := c.write(ctx, rec); err != nil {
			return nil, fmt.Errorf("writing AttuneRecommendation %s: %w", rec.Name, err)
		}
		out = append(out, *rec)
	}
	return out, nil
}

func (c *Controller) autoscalers(ctx context.Context, namespace string) (autoscale.Autoscalers, error) {
	if c.Autoscalers == nil {
		return autoscale.Autoscalers{}, nil
	}
	return c.Autoscalers.In(ctx, namespace)
}

func (c *Controller) profiles(settings policy.Settings, w workload.Workload, now time.Time) map[string]recommender.Profile {
	out := map[string]recommender.Profile{}
	for _, container := range sized(w.Template, settings) {
		key := store.Key{
			Source: settings.Source.Digest(), Namespace: w.Namespace, Kind: w.Kind, Workload: w.Name,
			Container: container.Name,
		}
		if profile, ok := c.History.Profile(key, now); ok {
			out[container.Name] = profile
		}
	}
	return out
}

// recommendation is the workload's object, or a new one that is not written yet.
func (c *Controller) recommendation(ctx context.Context, w workload.Workload) (*v1alpha1.AttuneRecommendation, error) {
	rec := &v1alpha1.AttuneRecommendation{}
	rec.Namespace, rec.Name = w.Namespace, w.RecommendationName()
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(rec), rec)
	if apierrors.IsNotFound(err) {
		rec.Labels = w.RecommendationLabels()
		return rec, nil
	}
	return rec, err
}

func (c *Controller) write(ctx context.Context, rec *v1alpha1.AttuneRecommendation) error {
	if rec.UID == "" {
		return c.Client.Create(ctx, rec)
	}
	return c.Client.Update(ctx, rec)
}

// release stops seeding for workloads that the policy had and no longer has. Their open watches are
// finished by the workload loop; proven sizes stay.
func (c *Controller) release(ctx context.Context, p *v1alpha1.AttunePolicy, won []workload.Workload) error {
	recs, err := c.recommendationsOf(ctx, p)
	if err != nil {
		return err
	}
	for i := range recs {
		rec := &recs[i]
		stillOurs := slices.ContainsFunc(won, func(w workload.Workload) bool {
			return rec.Name == w.RecommendationName()
		})
		if stillOurs || released(rec.Spec) {
			continue
		}
		rec.Spec.Mode, rec.Spec.Seed, rec.Spec.SeedWithheld = v1alpha1.UpdateObserve, nil, "PolicyNoLongerMatches"
		rec.Spec.Containers = nil
		if err := c.Client.Update(ctx, rec); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("releasing AttuneRecommendation %s: %w", rec.Name, err)
		}
	}
	return nil
}

func released(spec v1alpha1.AttuneRecommendationSpec) bool {
	return spec.Mode == v1alpha1.UpdateObserve && spec.Seed == nil && len(spec.Containers) == 0
}

func (c *Controller) recommendationsOf(ctx context.Context, p *v1alpha1.AttunePolicy) ([]v1alpha1.AttuneRecommendation, error) {
	list := &v1alpha1.AttuneRecommendationList{}
	err := c.Client.List(ctx, list, client.InNamespace(p.Namespace), client.MatchingFields{byPolicy: p.Name})
	if err != nil {
		return nil, fmt.Errorf("listing recommendations of policy %s: %w", p.Name, err)
	}
	return list.Items, nil
}

// finish lets a deleted policy go once no pod is watched for it any more.
func (c *Controller) finish(ctx context.Context, p *v1alpha1.AttunePolicy) (reconcile.Result, error) {
	c.History.Forget(p.Namespace, p.Name)
	if err := c.release(ctx, p, nil); err != nil {
		return reconcile.Result{}, err
	}
	recs, err := c.recommendationsOf(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	for _, rec := range recs {
		if len(rec.Status.Records) > 0 {
			return reconcile.Result{RequeueAfter: resync}, nil
		}
	}
	before := p.DeepCopy()
	if !controllerutil.RemoveFinalizer(p, v1alpha1.CleanupFinalizer) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(c.Client.Patch(ctx, p, locked(before)))
}

func (c *Controller) addFinalizer(ctx context.Context, p *v1alpha1.AttunePolicy) error {
	before := p.DeepCopy()
	if !controllerutil.AddFinalizer(p, v1alpha1.CleanupFinalizer) {
		return nil
	}
	return c.Client.Patch(ctx, p, locked(before))
}

// locked is the change of an object since before, if nobody else has changed it meanwhile.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

func interest(p *v1alpha1.AttunePolicy, settings policy.Settings, m matched) store.Interest {
	in := store.Interest{Policy: p.Name, Namespace: p.Namespace, Source: settings.Source, Neighbours: m.neighbours}
	for _, w := range m.won {
		var names []string
		for _, container := range sized(w.Template, settings) {
			names = append(names, container.Name)
		}
		if len(names) > 0 {
			in.Workloads = append(in.Workloads, store.Workload{Kind: w.Kind, Name: w.Name, Containers: names})
		}
	}
	return in
}
