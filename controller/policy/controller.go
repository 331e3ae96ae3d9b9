// Package policy is the loop keyed by AttunePolicy: it decides what each workload's recommendation says,
// and what the policy's status reports.
//
// One look at a policy (Reconcile), in order:
//  1. policiesOf bounds how many policies of a namespace are used; a policy beyond the bound is not used
//     (ends.go).
//  2. Settings resolves the policy's fields over four levels; invalid settings are reported, and nothing is
//     applied.
//  3. match settles which policy sizes each workload of the namespace (matching.go), once for all its
//     policies.
//  4. The loop asks the history to collect usage for the workloads that the policy won (interest).
//  5. sizer computes each workload's recommendation with package tuning/targets and writes it if it is
//     worth a write (recommend.go).
//  6. report becomes the policy's status, metrics and condition Ready (status.go, ready.go, metrics.go).
//
// The loop writes the spec of AttuneRecommendations, their checkpoints, the policy's status and its
// finalizer. It never touches a pod and never writes the status of a recommendation: that is the workload
// loop's half. What it remembers between looks (memories) may be lost. Start reading with Reconcile, then
// sizer.size.
package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
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
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
	"attune.io/attune/usage/recent"
)

// resync is how often a policy is looked at when nothing happened: data grows old without an event.
const resync = 5 * time.Minute

// History is what the loop needs of usage/history: it declares interest in workloads and reads what was
// collected. All methods are safe for concurrent use and answer from memory; none of them asks a usage
// source.
type History interface {
	// Want declares what a policy needs; it replaces the policy's earlier interest. An error is why the
	// history is not read.
	Want(history.Interest) error
	// Forget ends a policy's interest. What was collected is dropped when no policy needs it.
	Forget(namespace, policy string)
	// Profile returns the percentiles, peaks and gaps of a container's usage; false: nothing is known of
	// it.
	Profile(history.Key, time.Time) (recommender.Profile, bool)
	// State returns how a source is doing; false: no policy has asked for it yet.
	State(usage.SourceSettings) (history.State, bool)
	// Lost returns how many values of the namespace found no room in the newest answer.
	Lost(settings usage.SourceSettings, namespace string) int
	// Unanswered returns why the source does not answer about the namespace while it answers about others;
	// nil: it answers.
	Unanswered(settings usage.SourceSettings, namespace string) error
	// Implausible returns how many steps of a container had samples in the last day that cannot be true,
	// indexed by resource.
	Implausible(key history.Key, now time.Time) [2]recommender.Implausible
	// News returns a number that changes whenever the usage of the workload's containers does.
	News(history.Key) uint64
	// Read reports whether the whole past of a container's workload has been read.
	Read(history.Key) bool
	// Steps returns the values behind a container's profile, oldest first; nil: there are none.
	Steps(history.Key) []recommender.StepUsage
	// Highest returns the highest usage of a container over its replicas in a span of time; false: nothing
	// was measured in it.
	Highest(key history.Key, r recommender.Resource, from, to time.Time) (recommender.Usage, bool)

	// Forgets reports whether a source cannot be asked for the whole past again, such as kubelets. Its past is kept in
	// checkpoints.
	Forgets(usage.SourceSettings) bool
	// Checkpoint returns a container's history in a compact form of at most so many bytes, or nil where
	// there is none. It returns stored itself where nothing has changed since that was made.
	Checkpoint(key history.Key, most int, stored []byte) []byte
	// Restore puts a checkpoint under what is already known. An error means that it cannot be used.
	Restore(key history.Key, checkpoint []byte, now time.Time) error
}

// Recent follows what pods used lately, for the policies of the strategy Node.
type Recent interface {
	// Want declares the workloads of a policy; it replaces what the policy wanted before.
	Want(recent.Interest)
	// Forget ends a policy's interest.
	Forget(namespace, policy string)
	// Refused reports whether there is no room to follow some containers of a namespace.
	Refused(namespace string) bool
}

// Controller reconciles AttunePolicy objects. Its exported fields are set before Register and not changed
// afterwards. Reconcile runs in several goroutines, but in one at a time for a namespace (Options).
type Controller struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// History is the collected usage; never nil.
	History History
	// Recent follows recent usage; nil: the strategy Node is not served.
	Recent Recent
	// Confirmed publishes until when stored targets hold.
	Confirmed *board.Confirmed
	// Reconfirmed is called with a recommendation whose targets were too old and hold again, and wakes the
	// workload loop; nil: no loop listens.
	Reconfirmed func(types.NamespacedName)
	// Operator is the namespace of this operator, which distinguishes it from a second one; empty: not
	// known.
	Operator string
	// Sized are the kinds of workloads that are watched.
	Sized workload.Sized
	// Nodes bound what is recommended; the zero value: no node is known, and no size is bounded by one.
	Nodes Nodes
	// Autoscalers finds holds of HPAs and VPAs. While they cannot be listed, nothing is recommended. nil: the cluster has
	// none.
	Autoscalers autoscale.Reader
	// Clock is the source of the time of a look; tests set a fake one.
	Clock clock.PassiveClock
	// Settings resolves a policy's settings over all levels.
	Settings lookup.Reader
	// Events sends Kubernetes events; nil: none are sent.
	Events *event.Recorder

	// Doubt is for tests: it is called for each decision that is taken over from the last pass, with
	// whether a full look would have written something. nil: it is not called.
	Doubt func(ctx context.Context, recommendation string, wouldWrite bool)

	memories
}

// Reconcile brings the recommendations of one policy's workloads, and the policy's status, up to date. The
// package comment has the steps. A key without a namespace is that of a cluster policy as a whole.
//
// A policy that is gone, is being deleted, is beyond the bound or has invalid settings is handled first;
// each of these lets its workloads go: no seed, no new resize. An error makes the queue try again;
// workloads that could not be listed are also reported in the condition Ready.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (reconcile.Result, error) {
	if name, ok := policy.ClusterName(req.Name); ok && req.Namespace == "" {
		return summarizer{c}.look(ctx, name)
	}
	p, err := c.Settings.Policy(ctx, req.NamespacedName)
	if err != nil {
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, err
		}
		p = &v1alpha1.AttunePolicy{}
		p.Namespace, p.Name = req.Namespace, req.Name
		_, err = c.end(ctx, p)
		c.parts.Forget(req.NamespacedName)
		return reconcile.Result{}, errors.Join(err, c.forget(ctx, p.Namespace))
	}
	if p.DeletionTimestamp != nil {
		return c.finish(ctx, p)
	}
	used, beyond, err := c.policiesOf(ctx, p.Namespace)
	if err != nil {
		return c.unfinished(p, err)
	}
	if slices.ContainsFunc(beyond, func(other v1alpha1.AttunePolicy) bool { return other.Name == p.Name }) {
		// Its interest in usage ends too: it is not one of the policies that are used.
		recs, err := c.end(ctx, p)
		return c.unused(ctx, p, recs, err, v1alpha1.ReasonTooManyPolicies, policy.TooMany(p.Namespace))
	}
	settings, err := c.Settings.Settings(ctx, p)
	if err != nil {
		return c.refuse(ctx, p, err)
	}
	matched, err := c.match(ctx, p, used)
	if err != nil {
		return reconcile.Result{}, errors.Join(err, c.undiscovered(ctx, p, err))
	}
	return c.look(ctx, p, settings, matched)
}

// look sizes the workloads that a policy won, and reports. The finalizer is set before the status is
// written: if a record is open, the policy must not be deleted even if the status write fails. A workload
// that another operator looks after ends the look before anything of the policy is written, so that two
// operators do not overwrite one status in turns.
func (c *Controller) look(ctx context.Context, p *v1alpha1.AttunePolicy, settings policy.Settings, matched matched) (reconcile.Result, error) {
	now := c.Clock.Now()
	// Before the history is asked for: its samples are judged by the nodes.
	if err := c.listNodes(ctx); err != nil {
		return c.unfinished(p, err)
	}
	unread := c.History.Want(interest(p, settings, matched))
	follow(c.Recent, p, settings, matched, unread)
	out, err := c.recommend(ctx, p, settings, matched, now)
	if errors.Is(err, errUnlisted) {
		return reconcile.Result{}, errors.Join(err, c.guard(ctx, p, out.open), c.undiscovered(ctx, p, err))
	}
	if err != nil {
		return c.unfinished(p, err)
	}
	report := c.report(p, settings, matched, out, unread)
	c.published.publish(client.ObjectKeyFromObject(p), report)
	result := reconcile.Result{RequeueAfter: nextTry(out.refused, now)}
	// See anothers: two operators would otherwise overwrite one status in turns. A cluster policy gets its part all the
	// same: one namespace must not keep its status as it was.
	if slices.ContainsFunc(out.recommendations, func(rec v1alpha1.AttuneRecommendation) bool { return anothers(c.Operator, &rec) }) {
		c.parts.note(p, report.status())
		return result, out.later
	}
	if err := c.guard(ctx, p, out.open); err != nil {
		return c.unfinished(p, err)
	}
	if err := c.write(ctx, p, report.status()); err != nil {
		return reconcile.Result{}, err
	}
	return result, out.later
}

// report collects what the policy's status is computed from after a look. unread is why the history is not
// read; nil: it is.
func (c *Controller) report(p *v1alpha1.AttunePolicy, settings policy.Settings, matched matched, out outcome, unread error) report {
	source, _ := c.History.State(settings.Source)
	if unread != nil {
		source.Err = unread
	}
	return report{
		policy: p, settings: settings, matched: matched, recommendations: out.recommendations, refused: out.refused,
		sized: c.Sized, implausible: c.implausible(settings, matched),
		usage: usageState{
			State: source, lost: c.History.Lost(settings.Source, p.Namespace),
			unanswered: c.History.Unanswered(settings.Source, p.Namespace),
			unfollowed: c.Recent != nil && settings.Strategy == v1alpha1.StrategyNode && c.Recent.Refused(p.Namespace),
		},
	}
}

// implausible returns the first container of the policy of which samples were dropped in the last day because they cannot
// be true, in words; empty: there is none.
func (c *Controller) implausible(settings policy.Settings, m matched) string {
	now, source := c.Clock.Now(), settings.Source.Digest()
	for _, w := range m.won {
		for _, container := range targets.Sized(w.Template, settings) {
			key := history.Key{Source: source, Namespace: w.Namespace, Kind: w.Kind, Workload: w.Name, Container: container.Name}
			for r, dropped := range c.History.Implausible(key, now) {
				if dropped.Dropped > 0 {
					of := recommender.Resource(r)
					return fmt.Sprintf("container %s of %s: %d of %d %s samples of the last day were dropped, up to %s",
						container.Name, w.Identity, dropped.Dropped, dropped.Of, of, dropped.Told(of))
				}
			}
		}
	}
	return ""
}

// follow asks for what the pods of a policy of the strategy Node use themselves, because their nodes share
// by it. Under any other strategy or mode it ends that interest.
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

// interest returns what the policy needs of the history: its workloads with their sized containers, and
// the names of the other workloads, whose pods must not be counted as its own.
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

// memories is what the loop remembers from one look to the next. All of it may be lost with the process;
// each field says what that costs. Each field has its own mutex inside.
type memories struct {
	// published is what the gauges show. If it is lost, the next look at each policy publishes it again.
	published published
	// matchings are the newest of each namespace, forgotten with its last policy. If one is lost, the next look matches all
	// workloads of the namespace.
	matchings board.Table[string, *matching]
	// most workloads of a namespace that are sized; 0: policy.MostWorkloads.
	most int
	// refused are the writes that the API server did not take in a policy's newest look. If they are lost, each is tried once
	// more and put off anew.
	refused board.Table[types.NamespacedName, []refusal]
	// decided is what a policy's last look decided, forgotten with the policy. If it is lost, the next look decides anew.
	decided board.Table[types.NamespacedName, decided]
	// nodes are the largest nodes for each placement. If they are lost, the next look lists the nodes.
	nodes nodeIndex
	// parts are of cluster policies, forgotten with their namespaces. If they are lost, the status of a cluster policy stays
	// until each of its namespaces has been looked at.
	parts parts
}

// mostWorkloads is how many workloads of a namespace are sized; tests set a smaller number.
func (m *memories) mostWorkloads() int { return cmp.Or(m.most, policy.MostWorkloads) }

// decided is what a pass decided, by the recommendation's name, together with the settings that it had.
type decided struct {
	settings policy.Settings
	made     map[string]targets.Decision
}

// under returns the decisions if the settings are the same as then, on every level; otherwise nil, since
// each decision may be another.
func (d decided) under(settings policy.Settings) map[string]targets.Decision {
	if !reflect.DeepEqual(d.settings, settings) {
		return nil
	}
	return d.made
}
