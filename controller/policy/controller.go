// Package policy is the loop keyed by AttunePolicy: it matches workloads,
// resolves settings, recommends, and writes each workload's AttuneRecommendation
// (its spec alone) and the policy's status.
package policy

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/policy/lookup"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
	"attune.io/attune/usage/recent"
)

// resync is how often a policy is looked at when nothing happened: data grows old without an event.
const resync = 5 * time.Minute

// History is what the loop needs of usage/history.
type History interface {
	Want(history.Interest) error
	Forget(namespace, policy string)
	Profile(history.Key, time.Time) (recommender.Profile, bool)
	State(usage.SourceSettings) (history.State, bool)
	// Lost is how many values of the namespace found no room in the newest answer.
	Lost(settings usage.SourceSettings, namespace string) int
	// Unanswered is why the source does not answer about the namespace while it does about others; nil: it does.
	Unanswered(settings usage.SourceSettings, namespace string) error
	// News is another number whenever what is known of the workload's containers is.
	News(history.Key) uint64
	// Read says whether the whole past of a container's workload has been read.
	Read(history.Key) bool
	// Highest usage of a container over its replicas in a span of time.
	Highest(key history.Key, r recommender.Resource, from, to time.Time) (recommender.Usage, bool)
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

// Checkpoints is what usage/history has for sources that cannot be asked for the whole past again.
type Checkpoints interface {
	// Forgets says whether a source is such a one.
	Forgets(usage.SourceSettings) bool
	// Checkpoint is a container's history in a compact form of at most so many bytes, or nil; it is the one that is stored
	// where nothing has changed since that was made.
	Checkpoint(key history.Key, most int, stored []byte) []byte
	// Restore puts one under what is known. An error says that it is of no use.
	Restore(key history.Key, checkpoint []byte, now time.Time) error
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
	Settings    lookup.Reader
	// Events; nil: none are sent.
	Events *event.Recorder

	// Doubt, where set, is told of each decision that is taken for the last pass's whether a full look would have written
	// something; it is for tests.
	Doubt func(ctx context.Context, recommendation string, wouldWrite bool)

	memories
}

func (c *Controller) matcher() matcher { return matcher{c.Client, &c.memories} }

func (c *Controller) reporter() reporter { return reporter{c.Client} }

// Reconcile brings the recommendations of one policy's workloads, and its status, up to date.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (reconcile.Result, error) {
	p := &v1alpha1.AttunePolicy{}
	if err := c.Client.Get(ctx, req.NamespacedName, p); err != nil {
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, err
		}
		p.Namespace, p.Name = req.Namespace, req.Name
		_, err = c.end(ctx, p)
		return reconcile.Result{}, errors.Join(err, c.matcher().forget(ctx, p.Namespace))
	}
	if p.DeletionTimestamp != nil {
		return c.finish(ctx, p)
	}
	used, beyond, err := c.matcher().policiesOf(ctx, p.Namespace)
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
	matched, err := c.matcher().match(ctx, p, used)
	if err != nil {
		return reconcile.Result{}, errors.Join(err, c.reporter().write(ctx, p, undiscovered(p, err)))
	}
	return c.look(ctx, p, settings, matched)
}

// look at the workloads that a policy won.
func (c *Controller) look(ctx context.Context, p *v1alpha1.AttunePolicy, settings policy.Settings, matched matched) (reconcile.Result, error) {
	now, to := c.Clock.Now(), c.reporter()
	unread := c.History.Want(interest(p, settings, matched))
	follow(c.Recent, p, settings, matched, unread)
	out, err := c.recommend(ctx, p, settings, matched, now)
	if errors.Is(err, errUnlisted) {
		return reconcile.Result{}, errors.Join(err, to.guard(ctx, p, out.open), to.write(ctx, p, undiscovered(p, err)))
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	report := c.report(p, settings, matched, out, unread)
	c.published.publish(client.ObjectKeyFromObject(p), report)
	result := reconcile.Result{RequeueAfter: nextTry(out.refused, now)}
	if slices.ContainsFunc(out.recommendations, func(rec v1alpha1.AttuneRecommendation) bool { return anothers(c.Operator, &rec) }) {
		return result, out.later
	}
	if err := to.guard(ctx, p, out.open); err != nil {
		return reconcile.Result{}, err
	}
	if err := to.write(ctx, p, report.status()); err != nil {
		return reconcile.Result{}, err
	}
	return result, out.later
}

// report is what the policy's status is computed from after a look. unread is why the history is not read.
func (c *Controller) report(p *v1alpha1.AttunePolicy, settings policy.Settings, matched matched, out outcome, unread error) report {
	source, _ := c.History.State(settings.Source)
	if unread != nil {
		source.Err = unread
	}
	return report{
		policy: p, settings: settings, matched: matched, recommendations: out.recommendations, refused: out.refused,
		usage: usageState{
			State: source, lost: c.History.Lost(settings.Source, p.Namespace),
			unanswered: c.History.Unanswered(settings.Source, p.Namespace),
			unfollowed: c.Recent != nil && settings.Strategy == v1alpha1.StrategyNode && c.Recent.Refused(p.Namespace),
		},
	}
}

// follow asks for what the pods of a policy of the strategy Node use themselves: their nodes share by it.
func follow(to Recent, p *v1alpha1.AttunePolicy, settings policy.Settings, m matched, unread error) {
	if to == nil {
		return
	}
	if settings.Strategy != v1alpha1.StrategyNode || settings.Resize.Mode != v1alpha1.UpdateAuto || unread != nil {
		to.Forget(p.Namespace, p.Name)
		return
	}
	wanted := recent.Interest{Namespace: p.Namespace, Policy: p.Name, Source: settings.Source}
	for _, w := range m.won {
		wanted.Workloads = append(wanted.Workloads, w.Name)
	}
	to.Want(wanted)
}

// interest is what the policy wants of the history.
func interest(p *v1alpha1.AttunePolicy, settings policy.Settings, m matched) history.Interest {
	in := history.Interest{Policy: p.Name, Namespace: p.Namespace, Source: settings.Source, Neighbours: m.neighbours}
	for _, w := range m.won {
		var names []string
		for _, container := range targets.Sized(w.Template, settings) {
			names = append(names, container.Name)
		}
		if len(names) > 0 {
			in.Workloads = append(in.Workloads, history.Workload{Kind: w.Kind, Name: w.Name, Containers: names})
		}
	}
	return in
}
