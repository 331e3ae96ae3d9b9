// Package policy is the loop keyed by AttunePolicy: it computes the recommendation for each workload, and the
// policy's status.
//
// Reconcile handles one policy, in this order:
//  1. policiesOf limits how many policies of a namespace are used; a policy beyond the limit is not used
//     (ends.go).
//  2. Settings resolves the policy's fields over four levels. Invalid settings are reported and not applied.
//  3. match decides which policy sizes each workload of the namespace (matching.go), once for all its
//     policies.
//  4. The loop declares to the history which workloads it needs usage for (interest).
//  5. sizer computes each workload's recommendation with package tuning/targets and writes it if the change is
//     worth a write (recommend.go).
//  6. report becomes the policy's status, metrics and condition Ready (status.go, ready.go, metrics.go).
//
// The loop writes the spec of AttuneRecommendations, their checkpoints, the policy's status and its finalizer. It
// never changes a pod and never writes the status of a recommendation: that belongs to the workload loop. Its state
// between reconciles (memories) may be lost. Start reading with Reconcile, then sizer.size.
package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
	"attune.io/attune/usage/recent"
)

// resync is the time between two reconciles of a policy without events: data becomes stale without an event.
const resync = 5 * time.Minute

// History is the part of usage/history that the loop needs: it declares interest in workloads and reads the collected
// usage. All methods are safe for concurrent use and answer from memory; none of them queries a usage source.
type History interface {
	// Want declares what a policy needs; it replaces the policy's earlier interest. An error is why the history is
	// not read.
	Want(history.Interest) error
	// Forget ends a policy's interest. The collected usage is dropped when no policy needs it.
	Forget(namespace, policy string)
	// Profile returns the percentiles, peaks and gaps of a container's usage; false: there is no usage of it.
	Profile(history.Key, time.Time) (recommender.Profile, bool)
	// State returns the state of a source; false: no policy has declared interest in it yet.
	State(usage.SourceSettings) (history.State, bool)
	// Lost returns how many values of the namespace did not fit into memory in the newest answer.
	Lost(settings usage.SourceSettings, namespace string) int
	// Unanswered returns why the source does not answer for the namespace while it answers for others; nil: it
	// answers.
	Unanswered(settings usage.SourceSettings, namespace string) error
	// Implausible returns how many steps of a container had implausible samples in the last day, indexed by resource.
	Implausible(key history.Key, now time.Time) [2]recommender.Implausible
	// News returns a number that changes whenever the usage of the workload's containers does.
	News(history.Key) uint64
	// Await says whether new usage of the workload is awaited, because its history is out of date and its pods run.
	Await(key history.Key, awaited bool)
	// Read reports whether the whole history of a container's workload has been read.
	Read(history.Key) bool
	// Steps returns the values behind a container's profile, oldest first; nil: there are no values.
	Steps(history.Key) []recommender.StepUsage
	// Highest returns the highest usage of a container over its replicas in a span of time; false: it was not
	// measured then.
	Highest(key history.Key, r recommender.Resource, from, to time.Time) (recommender.Usage, bool)
	// Spans returns the mean usage of the pods of a workload that an HPA scales, Covered how much of the past it shows.
	// Without a container, a pod's usage is that of all its containers.
	Spans(key history.Key, r recommender.Resource) []replicas.Span
	Covered(key history.Key, r recommender.Resource) history.Coverage

	// Forgets reports whether a source, such as kubelets, cannot return past usage. Its history is kept in
	// checkpoints.
	Forgets(usage.SourceSettings) bool
	// Checkpoint returns a container's history in a compact form of at most so many bytes, or nil if there is no
	// history. It returns stored itself if nothing has changed since then.
	Checkpoint(key history.Key, most int, stored []byte) []byte
	// Restore adds a checkpoint as the past of the collected usage. An error means that the checkpoint cannot be
	// used.
	Restore(key history.Key, checkpoint []byte, now time.Time) error
}

// Recent collects the recent usage of single pods, for the policies of the strategy Node.
type Recent interface {
	// Want declares the workloads of a policy; it replaces the policy's earlier interest.
	Want(recent.Interest)
	// Forget ends a policy's interest.
	Forget(namespace, policy string)
	// Refused reports whether some containers of a namespace are not followed because the limit is reached.
	Refused(namespace string) bool
}

// Controller reconciles AttunePolicy objects. Its exported fields are set before Register and not changed
// afterwards. Reconcile runs in several goroutines, but in one at a time for a namespace (Options).
type Controller struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// History is the collected usage; never nil.
	History History
	// Recent collects recent usage; nil: the strategy Node is not served.
	Recent Recent
	// Confirmed publishes until when stored targets are valid.
	Confirmed *board.Confirmed
	// Reconfirmed is called with a recommendation whose stale targets are valid again, and wakes the workload loop;
	// nil: no loop listens.
	Reconfirmed func(types.NamespacedName)
	// Operator is the namespace of this attune installation, which distinguishes it from others; empty: not known.
	Operator string
	// Sized are the kinds of workloads that the loop watches.
	Sized workload.Sized
	// Nodes limit the recommended resources; the zero value: no node is known, and there is no such limit.
	Nodes Nodes
	// Autoscalers finds the resources that HPAs and VPAs control. While they cannot be listed, nothing is
	// recommended. nil: the cluster has none.
	Autoscalers autoscale.Reader
	// Clock is the source of the time of a reconcile; tests set a fake one.
	Clock clock.PassiveClock
	// Settings resolves a policy's settings over all levels.
	Settings lookup.Reader
	// Events sends Kubernetes events; nil: none are sent.
	Events *event.Recorder

	// Doubt is for tests: it is called for each decision that is reused from the last pass, with whether a full
	// computation would have written something. nil: it is not called.
	Doubt func(ctx context.Context, recommendation string, wouldWrite bool)

	memories
}

// Reconcile updates the recommendations for one policy's workloads, and the policy's status. The package comment has
// the steps. A key without a namespace is for a cluster policy as a whole.
//
// A policy that is deleted, terminating, beyond the limit or invalid is handled first; its workloads are released: no
// seed, no new resize. After an error, the queue tries again. If workloads could not be listed, the condition Ready
// reports it as well.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (reconcile.Result, error) {
	if name, ok := policy.ClusterName(req.Name); ok && req.Namespace == "" {
		return summarizer{c.Client, c.Settings, c.Events, c.Clock, c.Operator, c.Sized, &c.parts}.look(ctx, name)
	}
	p, err := c.Settings.Policy(ctx, req.NamespacedName)
	if err != nil {
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, err
		}
		p = &v1alpha1.AttunePolicy{}
		p.Namespace, p.Name = req.Namespace, req.Name
		_, err = c.releaseWorkloads(ctx, p)
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
		// Its interest in usage ends too, because the policy is not used.
		recs, err := c.releaseWorkloads(ctx, p)
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

// look sizes the workloads that a policy won, and reports. It sets the finalizer before it writes the status: while a
// record is open, the policy must not be deleted even if the status write fails. If another attune installation
// manages a workload, it writes nothing about the policy, so that the two do not alternately overwrite one status.
func (c *Controller) look(ctx context.Context, p *v1alpha1.AttunePolicy, settings policy.Settings, matched matched) (reconcile.Result, error) {
	now := c.Clock.Now()
	if wait := c.pace(p, settings, now); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	// Before the history is read: the nodes decide which samples are plausible.
	if err := c.listNodes(ctx); err != nil {
		return c.unfinished(p, err)
	}
	since, err := c.since(ctx, p.Namespace, now)
	if err != nil {
		return c.unfinished(p, err)
	}
	wanted := interest(p, settings, matched, since)
	c.wantFleets(ctx, &wanted, settings, matched)
	unread := c.History.Want(wanted)
	follow(c.Recent, p, settings, matched, unread)
	out, err := c.recommend(ctx, p, settings, matched, now)
	if errors.Is(err, errUnlisted) {
		return reconcile.Result{}, errors.Join(err, c.guard(ctx, p, out.open), c.undiscovered(ctx, p, err))
	}
	if err != nil {
		return c.unfinished(p, err)
	}
	report := c.report(ctx, p, settings, matched, out, unread, now)
	c.published.publish(client.ObjectKeyFromObject(p), report)
	result := reconcile.Result{RequeueAfter: nextTry(out.refused, now)}
	// See anothers: two installations would otherwise alternately overwrite one status. A cluster policy still gets
	// its part: one namespace must not block its status.
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

// pace returns how long changed settings wait because they changed a short time ago; 0: they are applied now. Settings
// that stop new sizes never wait.
func (c *Controller) pace(p *v1alpha1.AttunePolicy, settings policy.Settings, now time.Time) (wait time.Duration) {
	key := client.ObjectKeyFromObject(p)
	last, known := c.policies.decided.Find(key)
	if !known || last.generation == p.Generation && reflect.DeepEqual(last.settings, settings) {
		return 0
	}
	c.policies.paces.Change(key, func(before pace) pace {
		wait = before.left(now)
		if stops := len(settings.Resize.Paused) > 0 || !settings.SizesNewPods(); wait == 0 || stops {
			wait = 0
			return before.afterChange(now)
		}
		return before
	})
	return wait
}

// report collects the inputs of the policy's status after a reconcile. unread is why the history is not read; nil: it
// is.
func (c *Controller) report(ctx context.Context, p *v1alpha1.AttunePolicy, settings policy.Settings, matched matched, out outcome, unread error, now time.Time) report {
	source, _ := c.History.State(settings.Source)
	source.Last = source.Last.About(p.Namespace)
	if unread != nil {
		source.Err = unread
	}
	return report{
		now: now, policy: p, settings: settings, matched: matched, recommendations: out.recommendations, refused: out.refused,
		flaps: c.policies.paces.Of(client.ObjectKeyFromObject(p)).quick >= flapping,
		sized: c.Sized, notSized: c.Settings.NotSized(ctx, p.Namespace, &settings), implausible: c.implausible(settings, matched), thinCPU: c.thinCPU(settings, matched),
		usage: usageState{
			State: source, lost: c.History.Lost(settings.Source, p.Namespace),
			unanswered: c.History.Unanswered(settings.Source, p.Namespace),
			unfollowed: c.Recent != nil && settings.Strategy == v1alpha1.StrategyNode && c.Recent.Refused(p.Namespace),
		},
	}
}

// implausible names the first container of the policy with samples that were dropped in the last day because they are
// implausible, with the cause and the fix; empty: there is none. Samples of 0 count only if they block the resource.
func (c *Controller) implausible(settings policy.Settings, m matched) string {
	now, source := c.Clock.Now(), settings.Source.Digest()
	for _, w := range m.won {
		for _, container := range targets.Sized(w.Template, settings) {
			key := history.Key{Source: source, Namespace: w.Namespace, Kind: w.Kind, Workload: w.Name, Container: container.Name}
			for r, dropped := range c.History.Implausible(key, now) {
				if dropped.Dropped > dropped.Zeros || dropped.Blocks() {
					return fmt.Sprintf("container %s of %s: %s", container.Name, w.Identity, dropped.Sentence(recommender.Resource(r)))
				}
			}
		}
	}
	return ""
}

// mostThin bounds the containers that thinCPU reads, because profiles are expensive, and all containers of a source are
// thinned alike.
const mostThin = 20

// thinCPU names the first container of the policy with more than a day of memory usage, and CPU usage in fewer than half
// as many steps; empty: there is none. The rate of a counter needs two samples in the rate window. Memory needs one, so
// it is complete where a store has thinned its samples. Containers with dropped CPU samples do not count: a longer window
// does not help them.
func (c *Controller) thinCPU(settings policy.Settings, m matched) string {
	now, source, left := c.Clock.Now(), settings.Source.Digest(), mostThin
	for _, w := range m.won {
		for _, container := range targets.Sized(w.Template, settings) {
			if left--; left < 0 {
				return ""
			}
			key := history.Key{Source: source, Namespace: w.Namespace, Kind: w.Kind, Workload: w.Name, Container: container.Name}
			profile, known := c.History.Profile(key, now)
			cpu, memory := profile.Of[recommender.CPU], profile.Of[recommender.Memory]
			if !known || memory.Last.Sub(memory.First) < 24*time.Hour || 2*cpu.Points >= memory.Points ||
				c.History.Implausible(key, now)[recommender.CPU].Dropped > 0 {
				continue
			}
			return fmt.Sprintf("container %s of %s has CPU usage in %d steps and memory usage in %d: metricsSource.rateWindow %s is probably too short for "+
				"a downsampled store or a long scrape interval. Set a longer rateWindow, or queryParameters of the store",
				container.Name, w.Identity, cpu.Points, memory.Points, settings.Source.RateWindow)
		}
	}
	return ""
}

// follow declares interest in the recent usage of the pods of a policy of the strategy Node, because their nodes
// share by it. Under any other strategy or mode it ends that interest.
func follow(to Recent, p *v1alpha1.AttunePolicy, settings policy.Settings, m matched, unread error) {
	if to == nil {
		return
	}
	if settings.Strategy != v1alpha1.StrategyNode || settings.Resize.Mode != v1alpha1.UpdateAuto || unread != nil {
		to.Forget(p.Namespace, p.Name)
		return
	}
	wanted := recent.Interest{Namespace: p.Namespace, Policy: p.Name, Source: settings.Source}
	if settings.Source.OfPolicy {
		wanted.Source = settings.Source.Own() // a tenant's server must not say what the pods of a node need
	}
	for _, w := range m.won {
		wanted.Workloads = append(wanted.Workloads, m.namesOf(w)...)
	}
	to.Want(wanted)
}

// interest returns what the policy needs of the history: its workloads with their sized containers, and the names of
// the other workloads, whose pods must not be counted as its own. since: see Controller.since.
func interest(p *v1alpha1.AttunePolicy, settings policy.Settings, m matched, since time.Time) history.Interest {
	in := history.Interest{Policy: p.Name, Namespace: p.Namespace, Source: settings.Source, Since: since, Neighbours: m.neighbours}
	in.Startup = settings.Resize.Boost // the longest of the containers
	in.Workloads, in.Members = wantedHistories(p, settings, m)
	return in
}

// wantFleets marks the workloads of which an HPA scales on a request that the settings let change (setting Keep). The
// mean usage of their pods is wanted too. While the autoscalers cannot be listed, which may take a while for each workload,
// it is wanted of the same workloads as before.
func (c *Controller) wantFleets(ctx context.Context, in *history.Interest, settings policy.Settings, m matched) {
	if c.Autoscalers == nil || !settings.KeepsAnyReplicas() {
		return
	}
	at := make(map[workload.KindName]int, len(in.Workloads))
	for i, of := range in.Workloads {
		at[workload.KindName{Kind: of.Kind, Name: of.Name}] = i
	}
	var err error
	source := settings.Source.Digest()
	for _, w := range m.won {
		i, wanted := at[workload.KindName{Kind: w.Kind, Name: w.Name}]
		if !wanted {
			continue
		}
		var holds autoscale.Holds
		if err == nil {
			holds, err = c.Autoscalers.Of(ctx, w)
		}
		key := history.Key{Source: source, Namespace: w.Namespace, Kind: w.Kind, Workload: w.Name}
		switch {
		case err == nil && !holds.Keeping(in.Workloads[i].Containers, settings.KeepsReplicas),
			err != nil && c.History.Covered(key, recommender.CPU).Window == 0:
			continue
		}
		in.Workloads[i].Fleet = &history.Fleet{}
		if w.Template != nil {
			in.Workloads[i].Fleet.Counted = podview.Map(podview.ResizableIn(&w.Template.Spec), func(c *corev1.Container) string { return c.Name })
		}
	}
}

// memories is the state of the loop between reconciles. All of it may be lost with the process; each field has the
// consequence. Each field has its own mutex inside.
type memories struct {
	// published is what the gauges show. If it is lost, the next reconcile of each policy publishes it again.
	published published
	// matchings has the newest matching of each namespace, and drops it with its last policy. If one is lost, the
	// next reconcile matches all workloads of the namespace.
	matchings board.Table[string, *matching]
	// most workloads of a namespace that are sized; 0: policy.MostWorkloads.
	most int
	// policies is the state of each policy.
	policies policyMemory
	// incarnations are the namespaces as they were last seen, those without a policy for forgetNamespaceAfter. If they are
	// lost, usage of a former namespace with the same name counts.
	incarnations board.Table[string, incarnation]
	// nodes has the largest nodes for each placement. If they are lost, the next reconcile lists the nodes.
	nodes nodeIndex
	// parts has the parts of cluster policies, and drops them with their namespaces. If they are lost, the status of
	// a cluster policy does not change until each of its namespaces has been reconciled.
	parts parts
}

// policyMemory is the state of each policy between reconciles.
type policyMemory struct {
	// refused has the writes that the API server rejected in a policy's last reconcile. If they are lost, each is
	// tried once more and its backoff starts again.
	refused board.Table[types.NamespacedName, []refusal]
	// decided has the decisions of a policy's last reconcile, and drops them with the policy. If they are lost, the
	// next reconcile computes them again.
	decided board.Table[types.NamespacedName, decided]
	// paces separate changes of a policy's settings, and are dropped with the policy. If they are lost, the next change is
	// applied at once.
	paces board.Table[types.NamespacedName, pace]
}

// mostWorkloads is how many workloads of a namespace are sized; tests set a smaller number.
func (m *memories) mostWorkloads() int { return cmp.Or(m.most, policy.MostWorkloads) }

// decided holds the decisions of a pass, by the recommendation's name, and the settings behind them.
type decided struct {
	// generation of the policy.
	generation int64
	settings   policy.Settings
	made       map[string]targets.Decision
}

// under returns the decisions if the settings have not changed on any level; otherwise nil, because each decision may
// change.
func (d decided) under(settings policy.Settings) map[string]targets.Decision {
	if !reflect.DeepEqual(d.settings, settings) {
		return nil
	}
	return d.made
}
