package workload

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/tuning"
)

// forgetAfter is how long a recommendation outlives its workload, so that floors survive when the workload
// is deleted and created again.
const forgetAfter = 7 * 24 * time.Hour

// openEvery is how often a workload with an open record is looked at when nothing else asks for it: no
// record depends on an event, which may be lost.
const openEvery = time.Minute

// priority is the priority of a workload's next look in the queue. A workload that waits for its turn to
// begin resizes goes behind those that a new leader has not looked at yet, because these may have been
// harmed meanwhile.
func priority(v tuning.View) int {
	if v.Begin.Wait > 0 {
		return handler.LowPriority
	}
	return 0
}

// rest returns when to look again. It deletes a recommendation whose workload has been gone for
// forgetAfter and that has no open record; the deletion names the uid and the version, so that an object
// that changed meanwhile stays.
func (c *Controller) rest(ctx context.Context, rec *v1alpha1.AttuneRecommendation, w tuning.View, d tuning.Decision) (reconcile.Result, error) {
	if len(rec.Status.Records) > 0 && d.After == 0 {
		d.Wake(openEvery)
	}
	if w.Workload != nil || len(rec.Status.Records) > 0 || rec.DeletionTimestamp != nil {
		return reconcile.Result{RequeueAfter: d.After, Priority: ptr.To(priority(w))}, nil
	}
	c.counted.drop(client.ObjectKeyFromObject(rec))
	if left := rec.Status.GoneSince.Add(forgetAfter).Sub(w.Now); left > 0 {
		return reconcile.Result{RequeueAfter: left, Priority: ptr.To(0)}, nil
	}
	log.FromContext(ctx).Info("Deleting the recommendation of a workload that is gone", "since", rec.Status.GoneSince)
	err := c.Client.Delete(ctx, rec, client.Preconditions{UID: &rec.UID, ResourceVersion: &rec.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return c.again(client.ObjectKeyFromObject(rec), fmt.Errorf("deleting AttuneRecommendation %s: %w", rec.Name, err))
	}
	return reconcile.Result{}, nil
}
