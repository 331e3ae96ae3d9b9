package workload

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
)

// send sends each resize and notes the API server's answer in its record. That a pod has changed meanwhile is no
// event: the next pass decides by what it is then.
func (c *Controller) send(ctx context.Context, rec *v1alpha1.AttuneRecommendation, w world, d decision) v1alpha1.AttuneRecommendationStatus {
	status := *rec.Status.DeepCopy()
	for _, sent := range d.writes {
		returned, outcome := c.resize(ctx, sent)
		log.FromContext(ctx).Info("Sent a resize", "pod", sent.plan.PodName, "outcome", outcome.Kind, "reason", outcome.Reason)
		c.heed(&d, w, sent, returned, outcome)
		answer(&status, w, sent, returned, outcome, c.Clock.Now())
		if outcome.Kind != resize.OutcomeAccepted && outcome.Kind != resize.OutcomeConflict {
			c.Events.Send(rec, sent.pod, event.Warning(v1alpha1.EventResizeFailed, "Resize of pod %s: %s: %s", sent.plan.PodName, outcome.Reason, outcome.Message))
		}
	}
	c.sendEvictions(ctx, rec, d, &status)
	return status
}

// resize patches the pod's resize subresource; the patch names the pod's uid. Without rights nothing is sent.
func (c *Controller) resize(ctx context.Context, w write) (*corev1.Pod, resize.Outcome) {
	if why := c.Rights.lost(ctx); why != "" {
		return nil, resize.Outcome{Kind: resize.OutcomeRBAC, Reason: resize.ReasonNoRights, Message: why}
	}
	pod := w.pod.DeepCopy()
	patch := client.RawPatch(types.StrategicMergePatchType, w.plan.Patch())
	err := c.Client.SubResource("resize").Patch(ctx, pod, patch)
	return pod, resize.Classify(err)
}

// heed remembers what an answer says beyond its record: of the rights, of the node, and of what need not be asked
// again soon. Putting back is asked for as often as it takes.
func (c *Controller) heed(d *decision, w world, sent write, returned *corev1.Pod, outcome resize.Outcome) {
	key := client.ObjectKeyFromObject(w.rec)
	if outcome.Kind == resize.OutcomeAccepted {
		c.newest.note(returned, w.now)
	}
	if outcome.Kind == resize.OutcomeRBAC {
		c.Rights.lose(outcome.Message)
	}
	i := slices.IndexFunc(d.status.Records, func(r v1alpha1.ResizeRecord) bool { return r.PodUID == sent.plan.PodUID })
	if i >= 0 && resize.PuttingBack(d.status.Records[i]) {
		c.tries.note(sent.plan.PodUID, w.now)
	}
	if i < 0 || !isNew(d.status.Records[i]) {
		return
	}
	switch outcome.Kind {
	case resize.OutcomeAccepted:
		c.declined.accepted(key)
	case resize.OutcomeInfeasible:
		c.nodes.learn([]lesson{{d.status.Records[i], resize.ReasonInfeasible, outcome.Message}}, w.now)
		fallthrough
	case resize.OutcomeConflict, resize.OutcomeTransient, resize.OutcomePolicyRefusal, resize.OutcomeTerminal:
		c.declined.add(key, resize.NewDeclined(w.declined, outcome, sent.pod, sent.plan, d.gateWorld(w, sent.pod)))
	}
}

// isNew: the record's first patch is on its way, so that nothing was changed yet.
func isNew(record v1alpha1.ResizeRecord) bool {
	return record.Phase == v1alpha1.RecordWritten && !resize.InSecondPatch(record)
}

// answer notes in a record what the API server said to its resize. Nothing is noted of an unknown
// outcome: the next pass reads the pod. Nor of a second patch that met a passing no: it is sent again.
func answer(status *v1alpha1.AttuneRecommendationStatus, of world, w write, returned *corev1.Pod, outcome resize.Outcome, now time.Time) {
	for i := range status.Records {
		record := &status.Records[i]
		if record.PodUID != w.plan.PodUID {
			continue
		}
		switch {
		case outcome.Kind == resize.OutcomeAccepted:
			*record = resize.RecordReturned(*record, returned)
		case resize.InSecondPatch(*record) && outcome.Passing():
		case resize.InSecondPatch(*record) && outcome.Refused():
			*record = resize.SecondRefused(*record, w.pod)
		case isNew(*record) && outcome.Kind == resize.OutcomeInfeasible && resize.Recreates(*record, of.settings.Resize):
			*record = resize.GivenUp(*record)
		case isNew(*record) && outcome.Refused():
			refuse(status, i, of.rec.Spec.Workload.Name, outcome, now)
		}
		return
	}
}

// refuse closes a record whose resize the API server did not take. Nothing was changed, so nothing cools down: when
// it is asked again is the matter of what it said (resize.Declined). The history tells of answers that somebody may
// have to do something about.
func refuse(status *v1alpha1.AttuneRecommendationStatus, i int, workload string, outcome resize.Outcome, now time.Time) {
	switch outcome.Kind {
	case resize.OutcomeTerminal, resize.OutcomeInfeasible, resize.OutcomePolicyRefusal:
		rows := resize.HistoryRows(workload, status.Records[i], resize.ResultFailed, outcome.Reason, now)
		status.History = resize.AddHistory(resize.WithoutRows(status.History, rows), rows)
	}
	status.Records = append(status.Records[:i:i], status.Records[i+1:]...)
}
