// Package workload is the loop keyed by AttuneRecommendation: the resize state
// machine of one workload's pods, and the only writer of a pod. It assesses open
// records, decides in data, stores the decision, and only then acts on it.
package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/effective"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/fresh"
	"attune.io/attune/internal/grant"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
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

	// Grants of the nodes (strategy Node), and whom to tell that pods are held otherwise than before. nil: no node
	// grants anything.
	Grants      *grant.Table
	HeldChanged func(types.NamespacedName)

	// Fresh knows until when targets hold that are stored; nil: as long as is stored with them.
	Fresh *fresh.Table

	// What is remembered between passes. All of it may be lost.
	nodes    nodeMemory
	promises promises
	declined declined
	waiting  waiting
	weights  weights
	tries    tries
	newest   newest
	counted  counted
}

// Reconcile takes a workload's pods one step: reads, decides, stores, acts, notes the answers.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (reconcile.Result, error) {
	rec := &v1alpha1.AttuneRecommendation{}
	if err := c.Client.Get(ctx, req.NamespacedName, rec); err != nil {
		c.forget(req.NamespacedName, err)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	since := c.waiting.now()
	w, err := c.observe(ctx, rec)
	if err != nil {
		return reconcile.Result{}, err
	}
	c.measure(ctx, &w)
	d, err := c.decide(ctx, &w)
	if err != nil {
		return again(err)
	}
	if err := c.store(ctx, rec, d.status); err != nil {
		return again(err)
	}
	c.nodes.learn(d.lessons, w.now)
	c.tellNodes(rec, d)
	c.tell(rec, d)
	if err := c.store(ctx, rec, c.send(ctx, rec, w, d)); err != nil {
		return again(err)
	}
	if c.waiting.wait(req.NamespacedName, d.refused.topics, since) {
		d.wake(time.Second)
	}
	return c.rest(ctx, rec, w, d)
}

// forget drops what is remembered of a recommendation that is gone.
func (c *Controller) forget(name types.NamespacedName, err error) {
	if !apierrors.IsNotFound(err) {
		return
	}
	c.counted.drop(name)
	c.promises.make(name, nil, ledger{})
	c.declined.forget(name)
	c.Grants.Hold(name, nil, nil)
	c.Fresh.Forget(name)
	c.waiting.wait(name, nil, 0)
}

// again reads and decides anew where somebody else wrote the object, or took what was to be given, first.
func again(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || errors.Is(err, errUnsettled) {
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	return reconcile.Result{}, err
}

// store writes the status under the resourceVersion it was decided on, and only where it changed; the
// finalizer is there exactly while a record is open, and before the first one is written.
func (c *Controller) store(ctx context.Context, rec *v1alpha1.AttuneRecommendation, status v1alpha1.AttuneRecommendationStatus) error {
	if err := c.guard(ctx, rec, len(status.Records) > 0); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(rec.Status, status) {
		return nil
	}
	rec.Status = status
	if err := c.Client.Status().Update(ctx, rec); err != nil {
		return fmt.Errorf("storing the status of AttuneRecommendation %s: %w", rec.Name, err)
	}
	return nil
}

// guard adds the finalizer before a record is stored and takes it off after the last one is closed.
func (c *Controller) guard(ctx context.Context, rec *v1alpha1.AttuneRecommendation, open bool) error {
	before := rec.DeepCopy()
	closing := !open && len(rec.Status.Records) == 0
	changed := open && rec.DeletionTimestamp == nil && controllerutil.AddFinalizer(rec, v1alpha1.RecordsFinalizer) ||
		closing && controllerutil.RemoveFinalizer(rec, v1alpha1.RecordsFinalizer)
	if !changed {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, rec, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("guarding AttuneRecommendation %s with a finalizer: %w", rec.Name, err)
	}
	return nil
}

func (c *Controller) tell(rec *v1alpha1.AttuneRecommendation, d decision) {
	c.Events.Send(rec, nil, d.events...)
	c.counted.note(rec)
	for _, n := range d.counts {
		n.add(rec)
	}
	setPending(rec, len(d.pending))
	for _, outcome := range d.evictionCounts {
		countEviction(rec, outcome)
	}
}
