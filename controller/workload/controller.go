// Package workload is the loop keyed by AttuneRecommendation: the resize state
// machine of one workload's pods, and the only writer of a pod. It assesses open
// records, decides in data, stores the decision, and only then acts on it.
package workload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/effective"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/policy"
	"attune.io/attune/resize"
)

// forgetAfter is how long a recommendation outlives its workload, so that floors survive a re-creation.
const forgetAfter = 7 * 24 * time.Hour

// Autoscalers reads those of a namespace.
type Autoscalers interface {
	In(ctx context.Context, namespace string) (autoscale.Autoscalers, error)
}

// Controller reconciles AttuneRecommendation objects.
type Controller struct {
	Client   client.Client
	Clock    clock.PassiveClock
	Settings effective.Reader
	// Autoscalers are read anew for every decision: the holds in the spec may be older than an HPA. nil: a
	// cluster that has none.
	Autoscalers Autoscalers
	Events      *event.Recorder
	// Gauges is the gauge of a policy's usage source; nil: nothing is measured, and the judge says so.
	Gauges func(policy.Settings) (Gauge, error)
	// ServerVersion is that of the API server, such as v1.36.3.
	ServerVersion string
}

// Reconcile takes a workload's pods one step: reads, decides, stores, acts, notes the answers.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (reconcile.Result, error) {
	rec := &v1alpha1.AttuneRecommendation{}
	if err := c.Client.Get(ctx, req.NamespacedName, rec); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	w, err := c.observe(ctx, rec)
	if err != nil {
		return reconcile.Result{}, err
	}
	c.measure(ctx, &w)
	d := decide(w)
	if err := c.store(ctx, rec, d.status); err != nil {
		return again(err)
	}
	c.tell(rec, d)
	answered, err := c.send(ctx, rec, d)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := c.store(ctx, rec, answered); err != nil {
		return again(err)
	}
	return c.rest(ctx, w, d)
}

// again reads and decides anew where somebody else wrote the object first.
func again(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
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

// send sends each resize and notes the API server's answer in its record.
func (c *Controller) send(ctx context.Context, rec *v1alpha1.AttuneRecommendation, d decision) (v1alpha1.AttuneRecommendationStatus, error) {
	status := *rec.Status.DeepCopy()
	for _, w := range d.writes {
		returned, outcome := c.resize(ctx, w)
		log.FromContext(ctx).Info("Sent a resize", "pod", w.plan.PodName, "outcome", outcome.Kind, "reason", outcome.Reason)
		answer(&status, rec.Spec.Workload.Name, w, returned, outcome, c.Clock.Now())
		if outcome.Kind != resize.OutcomeAccepted {
			c.Events.Send(rec, w.pod, event.Warning(v1alpha1.EventResizeFailed, "Resize of pod %s: %s: %s", w.plan.PodName, outcome.Reason, outcome.Message))
		}
	}
	return status, nil
}

// resize patches the pod's resize subresource; the patch names the pod's uid.
func (c *Controller) resize(ctx context.Context, w write) (*corev1.Pod, resize.Outcome) {
	pod := w.pod.DeepCopy()
	patch := client.RawPatch(types.StrategicMergePatchType, w.plan.Patch())
	err := c.Client.SubResource("resize").Patch(ctx, pod, patch)
	return pod, resize.Classify(err)
}

// answer notes in a record what the API server said to its resize. Nothing is noted of an unknown
// outcome: the next pass reads the pod.
func answer(status *v1alpha1.AttuneRecommendationStatus, workload string, w write, returned *corev1.Pod, outcome resize.Outcome, now time.Time) {
	for i := range status.Records {
		record := &status.Records[i]
		if record.PodUID != w.plan.PodUID {
			continue
		}
		switch {
		case outcome.Kind == resize.OutcomeAccepted:
			*record = resize.RecordReturned(*record, returned)
		case resize.InSecondPatch(*record) && outcome.Refused():
			*record = resize.SecondRefused(*record, w.pod)
		case record.Phase == v1alpha1.RecordWritten && outcome.Refused():
			refuse(status, i, workload, outcome, now)
		}
		return
	}
}

// refuse closes a record whose resize the API server did not take. The same question would get the same
// answer at once, for ever, so it is asked again after the cooldown. A pod that is gone was refused nothing.
func refuse(status *v1alpha1.AttuneRecommendationStatus, i int, workload string, outcome resize.Outcome, now time.Time) {
	if outcome.Kind != resize.OutcomeGone {
		rows := resize.HistoryRows(workload, status.Records[i], resize.ResultFailed, outcome.Reason, now)
		status.History = resize.AddHistory(status.History, rows)
		status.CooldownFrom = &metav1.Time{Time: now}
	}
	status.Records = append(status.Records[:i:i], status.Records[i+1:]...)
}

func (c *Controller) tell(rec *v1alpha1.AttuneRecommendation, d decision) {
	c.Events.Send(rec, nil, d.events...)
	for _, n := range d.counts {
		n.add(rec)
	}
}

// rest says when to look again, and forgets a recommendation whose workload is long gone.
func (c *Controller) rest(ctx context.Context, w world, d decision) (reconcile.Result, error) {
	if w.workload != nil || len(w.rec.Status.Records) > 0 {
		return reconcile.Result{RequeueAfter: d.after}, nil
	}
	return reconcile.Result{RequeueAfter: forgetAfter}, nil
}
