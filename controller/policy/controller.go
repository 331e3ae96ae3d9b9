// Package policy is the loop keyed by AttunePolicy: it matches workloads,
// resolves settings, recommends, and writes each workload's AttuneRecommendation
// (its spec alone) and the policy's status.
package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/effective"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/recent"
	"attune.io/attune/usage/store"
)

// resync is how often a policy is looked at when nothing happened: data grows old without an event.
const resync = 5 * time.Minute

// History is what the loop needs of usage/store.
type History interface {
	Want(store.Interest) error
	Forget(namespace, policy string)
	Profile(store.Key, time.Time) (recommender.Profile, bool)
	State(usage.SourceSettings) (store.State, bool)
	// Lost is how many values of the namespace found no room in the newest answer.
	Lost(settings usage.SourceSettings, namespace string) int
	// Unanswered is why the source does not answer about the namespace while it does about others; nil: it does.
	Unanswered(settings usage.SourceSettings, namespace string) error
	// News is another number whenever what is known of the workload's containers is.
	News(store.Key) uint64
	// Read says whether the whole past of a container's workload has been read.
	Read(store.Key) bool
	// Highest usage of a container over its replicas in a span of time.
	Highest(key store.Key, r recommender.Resource, from, to time.Time) (recommender.Usage, bool)
}

// Recent follows what pods used lately, for the policies of the strategy Node.
type Recent interface {
	Want(recent.Interest)
	Forget(namespace, policy string)
	// Refused says whether there is no room to follow containers of a namespace.
	Refused(namespace string) bool
}

// Autoscalers knows what autoscalers hold of a workload.
type Autoscalers interface {
	Of(ctx context.Context, w workload.Workload) (autoscale.Holds, error)
}

// Checkpoints is what usage/store has for sources that cannot be asked for the whole past again.
type Checkpoints interface {
	// Forgets says whether a source is such a one.
	Forgets(usage.SourceSettings) bool
	// Checkpoint is a container's history in a compact form of at most so many bytes, or nil; it is the one that is stored
	// where nothing has changed since that was made.
	Checkpoint(key store.Key, most int, stored []byte) []byte
	// Restore puts one under what is known. An error says that it is of no use.
	Restore(key store.Key, checkpoint []byte, now time.Time) error
}

// Controller reconciles AttunePolicy objects.
type Controller struct {
	Client  client.Client
	History History
	// Checkpoints of the history; nil: there are none.
	Checkpoints Checkpoints
	// Recent; nil: nobody shares nodes.
	Recent Recent
	// Confirmed is told until when stored targets hold, and Reconfirmed which of them do again after all; nil: no loop asks.
	Confirmed   *board.Confirmed
	Reconfirmed func(types.NamespacedName)
	// Operator is the namespace of this operator, by which it is told from another one; empty: there is none.
	Operator string
	// Autoscalers; nil: a cluster that has none.
	Autoscalers Autoscalers
	Clock       clock.PassiveClock
	Settings    effective.Reader
	// Events; nil: none are sent.
	Events *event.Recorder

	// Doubt, where set, is told of each decision that is taken for the last pass's whether a full look would have written
	// something; it is for tests.
	Doubt func(ctx context.Context, recommendation string, wouldWrite bool)

	published published
	matchings matchings
	refused   refusals
	decided   decisions
}

// Reconcile brings the recommendations of one policy's workloads, and its status, up to date.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (reconcile.Result, error) {
	p := &v1alpha1.AttunePolicy{}
	if err := c.Client.Get(ctx, req.NamespacedName, p); err != nil {
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, err
		}
		p.Namespace, p.Name = req.Namespace, req.Name
		_, err = c.end(ctx, p)
		return reconcile.Result{}, errors.Join(err, c.forgetMatching(ctx, p.Namespace))
	}
	if p.DeletionTimestamp != nil {
		return c.finish(ctx, p)
	}
	used, beyond, err := c.policiesOf(ctx, p.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	if slices.ContainsFunc(beyond, func(other v1alpha1.AttunePolicy) bool { return other.Name == p.Name }) {
		return c.leaveOut(ctx, p)
	}
	settings, err := c.Settings.Settings(ctx, p)
	if err != nil {
		return c.refuse(ctx, p, err)
	}
	matched, err := c.match(ctx, p, used)
	if err != nil {
		return reconcile.Result{}, errors.Join(err, c.writeStatus(ctx, p, undiscovered(p, err)))
	}
	return c.look(ctx, p, settings, matched)
}

// look at the workloads that a policy won.
func (c *Controller) look(ctx context.Context, p *v1alpha1.AttunePolicy, settings policy.Settings, matched matched) (reconcile.Result, error) {
	now := c.Clock.Now()
	unread := c.History.Want(interest(p, settings, matched))
	c.follow(p, settings, matched, unread)
	out, err := c.recommend(ctx, p, settings, matched, now)
	if errors.Is(err, errUnlisted) {
		return reconcile.Result{}, errors.Join(err, c.guard(ctx, p, out.open), c.writeStatus(ctx, p, undiscovered(p, err)))
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	source, _ := c.History.State(settings.Source)
	if unread != nil {
		source.Err = unread
	}
	report := report{
		policy: p, settings: settings, matched: matched, recommendations: out.recommendations, refused: out.refused,
		source: source, lost: c.History.Lost(settings.Source, p.Namespace),
		unanswered: c.History.Unanswered(settings.Source, p.Namespace), now: now,
		unfollowed: c.Recent != nil && settings.Strategy == v1alpha1.StrategyNode && c.Recent.Refused(p.Namespace),
	}
	c.published.publish(client.ObjectKeyFromObject(p), report)
	result := reconcile.Result{RequeueAfter: nextTry(out.refused, now)}
	if slices.ContainsFunc(out.recommendations, func(rec v1alpha1.AttuneRecommendation) bool { return c.anothers(&rec) }) {
		return result, out.later
	}
	if err := c.guard(ctx, p, out.open); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.writeStatus(ctx, p, report.status()); err != nil {
		return reconcile.Result{}, err
	}
	return result, out.later
}

// refuse reports settings that cannot be used. Nothing is applied and new pods stay as they are until
// they are mended.
func (c *Controller) refuse(ctx context.Context, p *v1alpha1.AttunePolicy, cause error) (reconcile.Result, error) {
	invalid := effective.Invalid(cause)
	if invalid == nil {
		return reconcile.Result{}, cause
	}
	recs, err := c.letGo(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := c.guard(ctx, p, watched(recs)); err != nil {
		return reconcile.Result{}, err
	}
	known := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if known == nil || known.Reason != v1alpha1.ReasonInvalidConfig || known.Message != invalid.Error() {
		c.Events.Send(p, nil, event.Warning(v1alpha1.EventInvalidConfig, "%s", invalid.Error()))
	}
	return reconcile.Result{}, c.writeStatus(ctx, p, invalidStatus(p, invalid))
}

// leaveOut a policy beyond the bound on those of a namespace: nothing is asked for it, and its workloads are let go.
func (c *Controller) leaveOut(ctx context.Context, p *v1alpha1.AttunePolicy) (reconcile.Result, error) {
	recs, err := c.end(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := c.guard(ctx, p, watched(recs)); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, c.writeStatus(ctx, p, leftOut(p))
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
	return reconcile.Result{}, c.guard(ctx, p, false)
}

// end of a policy that is deleted: nothing is asked for it any more, and its workloads are let go.
func (c *Controller) end(ctx context.Context, p *v1alpha1.AttunePolicy) (map[string]*v1alpha1.AttuneRecommendation, error) {
	c.History.Forget(p.Namespace, p.Name)
	c.decided.forget(client.ObjectKeyFromObject(p))
	c.follow(p, policy.Settings{}, matched{}, nil)
	return c.letGo(ctx, p)
}

// forgetMatching of a namespace that has no policy any more.
func (c *Controller) forgetMatching(ctx context.Context, namespace string) error {
	used, _, err := c.policiesOf(ctx, namespace)
	if err == nil && len(used) == 0 {
		c.matchings.forget(namespace)
	}
	return err
}

// letGo of all that a policy sizes: what it recommended is published and seeded no longer.
func (c *Controller) letGo(ctx context.Context, p *v1alpha1.AttunePolicy) (map[string]*v1alpha1.AttuneRecommendation, error) {
	c.published.forget(client.ObjectKeyFromObject(p))
	c.refused.keep(client.ObjectKeyFromObject(p), nil)
	recs, err := c.recommendationsOf(ctx, p)
	if err != nil {
		return nil, err
	}
	return recs, c.release(ctx, recs, matched{}.whyReleased)
}

// guard keeps a policy for as long as a pod is resized or watched by its settings, and no longer: a policy
// that nothing rests on can be deleted without the operator. The workload loop puts the finalizer on before
// it stores a first record. Here it is put on where records were open already when the workload became
// the policy's, and taken off.
//
// In a namespace that is being deleted it is taken off at once: the pods go too, and so may the right to write here.
func (c *Controller) guard(ctx context.Context, p *v1alpha1.AttunePolicy, open bool) error {
	if open {
		terminating, err := owners.Terminating(ctx, c.Client, p.Namespace)
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
	if err := c.Client.Patch(ctx, p, locked(before)); client.IgnoreNotFound(err) != nil {
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

// locked is the change of an object since before, if nobody else has changed it meanwhile.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// follow asks for what the pods of a policy of the strategy Node use themselves: their nodes share by it.
func (c *Controller) follow(p *v1alpha1.AttunePolicy, settings policy.Settings, m matched, unread error) {
	if c.Recent == nil {
		return
	}
	if settings.Strategy != v1alpha1.StrategyNode || settings.Resize.Mode != v1alpha1.UpdateAuto || unread != nil {
		c.Recent.Forget(p.Namespace, p.Name)
		return
	}
	wanted := recent.Interest{Namespace: p.Namespace, Policy: p.Name, Source: settings.Source}
	for _, w := range m.won {
		wanted.Workloads = append(wanted.Workloads, w.Name)
	}
	c.Recent.Want(wanted)
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
