// Package workload is the loop keyed by AttuneRecommendation: it resizes the pods of one workload in place, observes
// them, and reverts resizes that cause a regression. It is the only component of attune that writes pods, and the
// only writer of the status of AttuneRecommendations.
//
// One pass (Reconcile), in order:
//  1. observe reads the policy, the workload, its pods and nodes, and the namespace from the cache into a
//     tuning.View.
//  2. decideUrgent decides what cannot wait (open records, OOM kills). If there is anything, the pass ends after it.
//  3. measurer queries a usage source for pods whose observation period has ended.
//  4. decide calls tuning.Decide, and looker reads what the decision requests, until nothing is unknown. awaitTarget
//     changes the target of an HPA first, and decides again while resizes wait for it.
//  5. carryOutDecision stores the status, then sends the resizes and evictions, then stores the answers.
//  6. rest returns when to reconcile again.
//
// The loop has no rules of its own: every rule about pods is in tuning and resize, which are pure. It never sends a
// resize before its record is stored. All state between passes (memory.go) may be lost: a new leader continues from
// the stored records. Start reading with Reconcile, then carryOutDecision, then decide (look.go).
package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
	"attune.io/attune/usage"
)

// Controller reconciles AttuneRecommendation objects. Its exported fields are set before Register and not changed
// afterwards. Reconcile runs in several goroutines, but never twice at a time for one recommendation.
type Controller struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server, without the cache. It is used only before steps that a later read cannot
	// correct.
	Live client.Reader
	// Clock is the source of Now; tests set a fake one.
	Clock clock.PassiveClock
	// Settings resolves a policy's settings over all levels.
	Settings lookup.Reader
	// Autoscalers are read again for every decision, because the holds in the stored spec may be older than an HPA.
	// While they cannot be listed, only responses to OOM kills start. nil: the cluster has none.
	Autoscalers autoscale.Reader
	// Events sends Kubernetes events; nil: none are sent.
	Events *event.Recorder
	// Gauges returns the gauge of a policy's usage source; nil: nothing is measured, and the verdict of an
	// observation says so.
	Gauges func(policy.Settings) (Gauge, error)
	// Climbs returns recent memory samples of pods from a policy's usage source; nil: no container is raised before
	// an OOM kill.
	Climbs func(policy.Settings) (Climbs, error)
	// Recently returns a policy's usage source, for the usage of the last minutes; nil: no raise is due, so that raises
	// wait for the cooldown.
	Recently func(policy.Settings) (usage.Source, error)
	// RecentCPU returns recent CPU usage that is already in memory; nil: there is none, and the verdict of an
	// observation says so.
	RecentCPU RecentCPU
	Access

	// Grants are the grants of nodes to their pods (strategy Node).
	Grants *board.Grants
	// HeldChanged is called with a recommendation whose pods became blocked or unblocked, and wakes the node loop;
	// nil: no loop listens.
	HeldChanged func(types.NamespacedName)

	// Confirmed is until when stored targets are known to be valid.
	Confirmed *board.Confirmed

	memory memory
}

// Access describes attune's identity and permissions at its API server.
type Access struct {
	// ControlPlane is what is known of the cluster's control plane.
	ControlPlane ControlPlane
	// Evictions reports that attune has the permission to evict pods.
	Evictions bool
	// Admission knows in which namespaces the webhook sizes new pods. Its Operator is the namespace of this attune
	// installation, which distinguishes it from others in the cluster; empty: not known.
	Admission workload.Admission
	// Rights are attune's permissions to resize pods; nil: they are assumed.
	Rights *Rights
	// Sized are the kinds of workloads that the loop watches.
	Sized workload.Sized
	// Served knows whether the API server serves pods/resize; nil: it is assumed if the version permits it.
	Served *Served
}

// ControlPlane is what is known of a cluster's control plane.
type ControlPlane struct {
	// Version is the version of the API server, such as v1.36.3. It decides which resources a resize may change.
	Version string
	// HPASync is the sync period of HPAs; 0: the default of Kubernetes.
	HPASync time.Duration
}

// Reconcile makes one pass over a workload's pods: it reads, decides, stores, acts and records the answers. The
// package comment has the steps.
//
// The result has the time of the next pass without an event. After an error the queue tries again with a growing delay;
// a conflict with another writer is not an error but a short wait (retryOnConflict). There are three early returns: the
// object is deleted; the cache does not show this loop's last write yet, so that a decision would repeat it; the write
// of a decision can wait (early).
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (reconcile.Result, error) {
	rec := &v1alpha1.AttuneRecommendation{}
	if err := c.Client.Get(ctx, req.NamespacedName, rec); err != nil {
		if apierrors.IsNotFound(err) {
			c.memory.forget(req.NamespacedName)
			c.Grants.Forget(req.NamespacedName)
			c.Confirmed.Forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if left := c.memory.stored.behind(rec, c.Clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	c.memory.steps.recall(rec)
	// The counter is read before any object, so that the end of the pass notices a change during the pass
	// (waiting.wait).
	since := c.memory.waiting.now()
	w, err := c.observe(ctx, rec)
	if err != nil {
		return reconcile.Result{}, err
	}
	if d, presses := c.decideUrgent(ctx, &w); presses {
		if err := c.carryOutDecision(ctx, rec, w, &d); err != nil {
			return c.retryOnConflict(req.NamespacedName, err)
		}
		return reconcile.Result{RequeueAfter: atOnce}, nil
	}
	m := measurer{c.Gauges, c.RecentCPU, &c.memory.guardrails}
	m.measureEnds(ctx, &w)
	m.measure(ctx, &w)
	d := c.awaitTarget(ctx, &w, c.decide(ctx, &w))
	c.memory.deletions.Put(req.NamespacedName, d.Deletions)
	c.memory.meters.fleet.storeFigures(w, d.Status)
	if left := c.early(w, d.Decision); left > 0 {
		c.memory.steps.record(req.NamespacedName, d.Status.Records)
		if d.target > 0 {
			left = min(left, d.target)
		}
		return reconcile.Result{RequeueAfter: left, Priority: ptr.To(0)}, nil
	}
	if err := c.carryOutDecision(ctx, rec, w, &d); err != nil {
		return c.retryOnConflict(req.NamespacedName, err)
	}
	c.memory.conflicts.Forget(req.NamespacedName)
	// Only a complete pass knows why its pods are blocked and what they wait for.
	if w.Begin.Closed == nil && w.Begin.Wait == 0 {
		c.publishBlocked(w, d.Decision)
		c.memory.queue.Put(req.NamespacedName, d.ByNode.WaitingSince)
		if c.memory.waiting.wait(req.NamespacedName, d.Topics, since) {
			d.Wake(time.Second)
		}
	}
	if w.Begin.Closed != nil || w.Looked.Unread.Any() {
		d.Wake(c.memory.retries.after(req.NamespacedName, afterIncomplete))
	} else {
		c.memory.retries.Forget(req.NamespacedName)
	}
	return c.rest(ctx, rec, w, d.Decision)
}

// early returns how long a pass must wait before it writes; 0: it need not. It waits if nothing is due and the last
// write is too recent. Pods that share a node do not wait at first: their node changes several pods together, and a
// pod that is late makes the node share again. If that does not settle, the pace applies to them as well.
func (c *Controller) early(w tuning.View, d tuning.Decision) time.Duration {
	if d.Due || noNews(w.Rec.Status, d.Status) || c.memory.stored.awaited(w, d) {
		return 0
	}
	free := 0
	if w.ByNode() {
		free = freeOfPace
	}
	return c.memory.pace.waitBeforeWrite(client.ObjectKeyFromObject(w.Rec), free, w.Now)
}

// atOnce is the time until the next pass after one that did only what could not wait. It is not 0, because 0 means
// "only after an event".
const atOnce = time.Millisecond

// carryOutDecision carries out a decision. The order makes a crash safe:
//  1. store the status with the records of the resizes to send;
//  2. learn lessons and send events, which are correct once the status is stored;
//  3. send the resizes and evictions;
//  4. store the API server's answers.
//
// A crash after 1 leaves records without a patch, which the next pass recognises on the pod. Sending before storing
// could leave a resized pod that no process can restore. Unused tokens of the rate limit are returned in any case.
func (c *Controller) carryOutDecision(ctx context.Context, rec *v1alpha1.AttuneRecommendation, w tuning.View, d *decided) error {
	begun := 0
	defer func() { c.memory.limit.returnTokens(d.turns - begun) }()
	news := !noNews(rec.Status, d.Status)
	if err := c.storer().store(ctx, rec, d.Status); err != nil {
		return err
	}
	if news { // a write that failed is tried again soon: another writer was first
		c.memory.pace.wrote(client.ObjectKeyFromObject(rec), d.Status.Phase, w.Now)
	}
	c.memory.nodes.learn(d.Lessons, w.Now)
	c.publishDecision(rec, w.Workload, d.Decision)
	answered, sent := c.send(ctx, rec, w, d.Decision)
	begun = sent
	if !samePhases(answered.Records, d.Status.Records) {
		d.Wake(time.Second) // a resize that was not accepted is decided again
	}
	if slices.ContainsFunc(answered.Records, tuning.IsNew) {
		d.Wake(lifecycle.SyncPeriod) // no event follows a lost answer
	}
	return c.storer().store(ctx, rec, answered)
}

// samePhases reports that the answers closed no record and turned none into a revert, so that no new decision is
// needed at once. An accepted resize needs none: the pod's own event wakes the loop.
func samePhases(answered, decided []v1alpha1.ResizeRecord) bool {
	return slices.EqualFunc(answered, decided, func(a, b v1alpha1.ResizeRecord) bool {
		return a.PodUID == b.PodUID && resize.PuttingBack(a) == resize.PuttingBack(b)
	})
}

// retryOnConflict turns a conflict into a short wait: another writer changed the object, so the pass must read and
// decide again. Other errors are returned.
func (c *Controller) retryOnConflict(name types.NamespacedName, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: c.memory.conflicts.after(name, afterConflict)}, nil
	}
	return reconcile.Result{}, err
}

// sendEvent sends an event on its pod, where users look first, with the recommendation as the related object. An
// event about the workload is sent on the recommendation, and also on the workload (nil: it is deleted) if users must
// see it there.
func (c *Controller) sendEvent(rec *v1alpha1.AttuneRecommendation, of *workload.Workload, e tuning.Event) {
	if e.OnWorkload && of != nil {
		c.Events.Send(reference(*of), rec, e.Event)
	}
	if e.Pod == "" {
		c.Events.Send(rec, nil, e.Event)
		return
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: rec.Namespace, Name: e.Name, UID: e.Pod}}
	c.Events.Send(pod, rec, e.Event)
}

// reference returns a workload as an event refers to it.
func reference(of workload.Workload) *metav1.PartialObjectMetadata {
	version := "v1"
	if of.Kind == v1alpha1.KindRollout {
		version = workload.ArgoGroupVersion.Version
	}
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name, UID: of.UID}}
	out.SetGroupVersionKind(workload.GroupKindOf(of.Kind).WithVersion(version))
	return out
}

// publishDecision sends the events of a decision and adds its increments to the metrics. It runs after the status is
// stored, so that a pass that is repeated after a conflict does not count twice.
func (c *Controller) publishDecision(rec *v1alpha1.AttuneRecommendation, of *workload.Workload, d tuning.Decision) {
	for _, e := range d.Events {
		c.sendEvent(rec, of, e)
	}
	for _, n := range d.Counts {
		c.memory.meters.counted.add(n, rec)
	}
	c.memory.meters.counted.pending(rec, len(d.Pending))
	for _, outcome := range d.EvictionOutcomes {
		c.memory.meters.counted.eviction(rec, outcome)
	}
}

// forgetAfter is how long a recommendation outlives its workload, so that floors survive when the workload
// is deleted and created again.
const forgetAfter = 7 * 24 * time.Hour

// openEvery is the time between two passes over a workload with an open record, without other reasons: no record
// depends on an event, which may be lost.
const openEvery = time.Minute

// rest returns when to reconcile again. It deletes a recommendation without open records whose workload has been
// deleted for forgetAfter. The deletion contains the UID and the version, so that an object that changed meanwhile is
// not deleted.
func (c *Controller) rest(ctx context.Context, rec *v1alpha1.AttuneRecommendation, w tuning.View, d tuning.Decision) (reconcile.Result, error) {
	if len(rec.Status.Records) > 0 && d.After == 0 {
		d.Wake(openEvery)
	}
	if w.Workload != nil || len(rec.Status.Records) > 0 || rec.DeletionTimestamp != nil {
		// A workload that waits for its turn to start resizes has a lower priority than those that a new leader has
		// not reconciled yet, because these may have had a regression meanwhile.
		priority := 0
		if w.Begin.Wait > 0 {
			priority = handler.LowPriority
		}
		return reconcile.Result{RequeueAfter: d.After, Priority: &priority}, nil
	}
	c.memory.meters.counted.drop(client.ObjectKeyFromObject(rec))
	if left := rec.Status.GoneSince.Add(forgetAfter).Sub(w.Now); left > 0 {
		return reconcile.Result{RequeueAfter: left, Priority: ptr.To(0)}, nil
	}
	if len(w.Pods) == 0 {
		restoreTargets(ctx, c.Live, c.Client, rec)
	}
	log.FromContext(ctx).Info("Deleting the recommendation of a deleted workload", "since", rec.Status.GoneSince)
	err := c.Client.Delete(ctx, rec, client.Preconditions{UID: &rec.UID, ResourceVersion: &rec.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return c.retryOnConflict(client.ObjectKeyFromObject(rec), fmt.Errorf("deleting AttuneRecommendation %s: %w", rec.Name, err))
	}
	return reconcile.Result{}, nil
}
