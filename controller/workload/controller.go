// Package workload is the loop keyed by AttuneRecommendation: the resize state
// machine of one workload's pods, and the only writer of a pod. It assesses open
// records, decides in data, stores the decision, and only then acts on it.
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
	"attune.io/attune/resize"
)

// Autoscalers knows what autoscalers hold of a workload.
type Autoscalers interface {
	Of(ctx context.Context, w workload.Workload) (autoscale.Holds, error)
}

// Controller reconciles AttuneRecommendation objects.
type Controller struct {
	Client client.Client
	// Live reads from the API server, not from a cache.
	Live     client.Reader
	Clock    clock.PassiveClock
	Settings effective.Reader
	// Autoscalers are read anew for every decision: the holds in the spec may be older than an HPA. nil: a
	// cluster that has none.
	Autoscalers Autoscalers
	Events      *event.Recorder
	// Gauges is the gauge of a policy's usage source; nil: nothing is measured, and the judge says so.
	Gauges func(policy.Settings) (Gauge, error)
	// Lately is what is known of CPU without asking; nil: nothing is, and the judge says so.
	Lately Lately
	// ServerVersion is that of the API server, such as v1.36.3.
	ServerVersion string
	// Operator is the namespace of this operator, by which it is told from another one; empty: there is none.
	Operator string
	// Evictions: the operator was granted the right to evict pods.
	Evictions bool
	// Rights to resize pods; nil: they are taken for granted.
	Rights *Rights
	// Served knows whether the API server serves pods/resize; nil: it does where its version may.
	Served *Served

	// Grants of the nodes (strategy Node), and whom to tell that pods are held otherwise than before. nil: no node
	// grants anything.
	Grants      *board.Grants
	HeldChanged func(types.NamespacedName)

	// Confirmed knows until when targets hold that are stored; nil: as long as is stored with them.
	Confirmed *board.Confirmed

	// What is remembered between passes. All of it may be lost.
	nodes     nodeMemory
	promises  promises
	waiting   waiting
	queue     queue
	weights   weights
	lastAsked lastAsked
	newest    newest
	counted   counted
	retries   retries
	conflicts retries
	stored    stored
	steps     steps
	pace      pace
	limit     limit
}

// Reconcile takes a workload's pods one step: reads, decides, stores, acts, notes the answers.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (reconcile.Result, error) {
	rec := &v1alpha1.AttuneRecommendation{}
	if err := c.Client.Get(ctx, req.NamespacedName, rec); err != nil {
		c.forget(req.NamespacedName, err)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if left := c.stored.behind(rec, c.Clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	c.steps.recall(rec)
	since := c.waiting.now()
	w, err := c.observe(ctx, rec)
	if err != nil {
		return reconcile.Result{}, err
	}
	if d, presses := c.first(ctx, &w); presses {
		if err := c.act(ctx, rec, w, &d); err != nil {
			return c.again(req.NamespacedName, err)
		}
		return reconcile.Result{RequeueAfter: atOnce}, nil
	}
	c.measure(ctx, &w)
	d := c.decide(ctx, &w)
	if left := c.early(w, d); left > 0 {
		c.steps.note(req.NamespacedName, d.status.Records)
		return reconcile.Result{RequeueAfter: left, Priority: ptr.To(0)}, nil
	}
	if err := c.act(ctx, rec, w, &d); err != nil {
		return c.again(req.NamespacedName, err)
	}
	c.conflicts.over(req.NamespacedName)
	if w.closed == nil && w.full == 0 {
		c.tellNodes(w, d)
		c.queue.keep(req.NamespacedName, d.stillWaiting(w))
		if c.waiting.wait(req.NamespacedName, d.refused.topics, since) {
			d.wake(time.Second)
		}
	}
	if w.closed != nil || w.unread.any() {
		d.wake(c.retries.after(req.NamespacedName, afterIncomplete))
	} else {
		c.retries.over(req.NamespacedName)
	}
	return c.rest(ctx, rec, w, d)
}

// early is how long a pass waits with what it would write: nothing that is due, and too soon after the last one. Pods
// that share a node are not put off at first: they are held, let go and changed together, or each is shared out anew
// beside what the others still hold. Their node keeps the distance, and where it never settles, the workload does.
func (c *Controller) early(w world, d decision) time.Duration {
	if d.due || noNews(w.rec.Status, d.status) {
		return 0
	}
	free := 0
	if w.byNode() {
		free = freeOfPace
	}
	return c.pace.left(client.ObjectKeyFromObject(w.rec), free, w.now)
}

// atOnce is when a pass follows one that did only what could not wait.
const atOnce = time.Millisecond

// act stores a decision, tells of it, and carries it out.
func (c *Controller) act(ctx context.Context, rec *v1alpha1.AttuneRecommendation, w world, d *decision) error {
	begun := 0
	defer func() { c.limit.giveBack(d.turns - begun) }()
	news := !noNews(rec.Status, d.status)
	if err := c.store(ctx, rec, d.status); err != nil {
		return err
	}
	if news { // what was not stored is tried again soon: another writer was first
		c.pace.wrote(client.ObjectKeyFromObject(rec), d.status.Phase, w.now)
	}
	c.nodes.learn(d.lessons, w.now)
	c.tell(rec, *d)
	answered, sent := c.send(ctx, rec, w, *d)
	begun = sent
	if !samePhases(answered.Records, d.status.Records) {
		d.wake(time.Second) // what was not taken is decided about anew
	}
	if slices.ContainsFunc(answered.Records, isNew) {
		d.wake(resize.SyncPeriod) // an answer that is lost wakes nothing
	}
	return c.store(ctx, rec, answered)
}

// samePhases: the answers closed no record and began to take none back. That a resize was accepted is for its pod to
// tell.
func samePhases(answered, decided []v1alpha1.ResizeRecord) bool {
	return slices.EqualFunc(answered, decided, func(a, b v1alpha1.ResizeRecord) bool {
		return a.PodUID == b.PodUID && resize.PuttingBack(a) == resize.PuttingBack(b)
	})
}

// forget drops what is remembered of a recommendation that is gone.
func (c *Controller) forget(name types.NamespacedName, err error) {
	if !apierrors.IsNotFound(err) {
		return
	}
	c.counted.drop(name)
	c.promises.make(name, nil, ledger{})
	c.Grants.Forget(name)
	c.Confirmed.Forget(name)
	c.waiting.wait(name, nil, 0)
	c.queue.keep(name, nil)
	c.retries.over(name)
	c.conflicts.over(name)
	c.stored.forget(name)
	c.steps.note(name, nil)
	c.pace.forget(name)
}

// again reads and decides anew where another writer was first.
func (c *Controller) again(name types.NamespacedName, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: c.conflicts.after(name, afterConflict)}, nil
	}
	return reconcile.Result{}, err
}

// store writes the status under the resourceVersion it was decided on, and only where it has news; the
// finalizer is there exactly while a record is open, and before the first one is written.
func (c *Controller) store(ctx context.Context, rec *v1alpha1.AttuneRecommendation, status v1alpha1.AttuneRecommendationStatus) error {
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
	c.stored.written(rec, c.Clock.Now())
	c.steps.note(name, rec.Status.Records)
	return nil
}

// refused looks whether a write was refused because the cache is behind another writer: at that version every write is. A
// conflict for another reason is over when it is tried again.
func (c *Controller) refused(ctx context.Context, rec *v1alpha1.AttuneRecommendation, err error) {
	if !apierrors.IsConflict(err) {
		return
	}
	newest := &v1alpha1.AttuneRecommendation{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(rec), newest); err == nil && newest.ResourceVersion != rec.ResourceVersion {
		c.stored.behindOf(newest, c.Clock.Now())
	}
}

// guard adds the finalizer before a record is stored and takes it off after the last one is closed. In a namespace that is
// being deleted it is taken off at once: the pods go too, and so may the right to write here.
func (c *Controller) guard(ctx context.Context, rec *v1alpha1.AttuneRecommendation, open bool) error {
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
	before := rec.DeepCopy()
	closing := !open && len(rec.Status.Records) == 0 || terminating
	changed := open && rec.DeletionTimestamp == nil && controllerutil.AddFinalizer(rec, v1alpha1.RecordsFinalizer) ||
		closing && controllerutil.RemoveFinalizer(rec, v1alpha1.RecordsFinalizer)
	if !changed {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, rec, patch); client.IgnoreNotFound(err) != nil {
		c.refused(ctx, before, err)
		return fmt.Errorf("guarding AttuneRecommendation %s with a finalizer: %w", rec.Name, err)
	}
	c.stored.written(rec, c.Clock.Now())
	return nil
}

// guardPolicy keeps the policy, by whose settings a watch is finished, before a first record is stored. The policy
// loop lets it go after the last one. A policy that is being deleted begins nothing.
func (c *Controller) guardPolicy(ctx context.Context, rec *v1alpha1.AttuneRecommendation) error {
	p := &v1alpha1.AttunePolicy{}
	err := c.Client.Get(ctx, types.NamespacedName{Namespace: rec.Namespace, Name: rec.Spec.Policy.Name}, p)
	if apierrors.IsNotFound(err) || err == nil && p.DeletionTimestamp != nil {
		return nil
	}
	before := p.DeepCopy()
	if err != nil || !controllerutil.AddFinalizer(p, v1alpha1.CleanupFinalizer) {
		return err
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, p, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("guarding policy %s with a finalizer: %w", p.Name, err)
	}
	return nil
}

// sendEvent sends an event on the pod that it is about, where a person looks first, with the recommendation as the
// related object; on the recommendation where it is about the workload.
func (c *Controller) sendEvent(rec *v1alpha1.AttuneRecommendation, e told) {
	if e.pod == "" {
		c.Events.Send(rec, nil, e.Event)
		return
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: rec.Namespace, Name: e.name, UID: e.pod}}
	c.Events.Send(pod, rec, e.Event)
}

func (c *Controller) tell(rec *v1alpha1.AttuneRecommendation, d decision) {
	for _, e := range d.events {
		c.sendEvent(rec, e)
	}
	c.counted.note(rec)
	for _, n := range d.counts {
		n.add(rec)
	}
	setPending(rec, len(d.pending))
	for _, outcome := range d.evictionCounts {
		countEviction(rec, outcome)
	}
}
