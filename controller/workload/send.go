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
// event: the next pass decides by what it is then. begun is how many resizes went out that were to begin.
func (c *Controller) send(ctx context.Context, rec *v1alpha1.AttuneRecommendation, w world, d decision) (status v1alpha1.AttuneRecommendationStatus, begun int) {
	status = *rec.Status.DeepCopy()
	for _, sent := range d.writes {
		if refusal := declinedMeanwhile(&status, w, sent); refusal != nil {
			log.FromContext(ctx).Info("Did not send a resize that others were refused", "pod", sent.plan.PodName, "reason", refusal.Message)
			continue
		}
		returned, outcome := c.resize(ctx, sent)
		if sent.begins && outcome.Reason != resize.ReasonNoRights {
			begun++
		}
		log.FromContext(ctx).Info("Sent a resize", "pod", sent.plan.PodName, "outcome", outcome.Kind, "reason", outcome.Reason)
		c.heed(ctx, &d, w, sent, returned, outcome)
		for _, n := range answer(&status, w, sent, returned, outcome, c.Clock.Now()) {
			n.add(rec)
		}
		if outcome.Kind != resize.OutcomeAccepted && outcome.Kind != resize.OutcomeConflict {
			c.Events.Send(sent.pod, rec, event.Warning(v1alpha1.EventResizeFailed, "Resize of pod %s: %s: %s", sent.plan.PodName, outcome.Reason, outcome.Message))
		}
	}
	c.sendEvictions(ctx, rec, d, &status)
	return status, begun
}

// declinedMeanwhile drops the record of a resize that need not be sent any more, as enough pods of the pass were told
// the same: so a refusal that concerns all pods of a workload costs a few patches and not one each.
func declinedMeanwhile(status *v1alpha1.AttuneRecommendationStatus, w world, sent write) *resize.Refusal {
	i := recordAt(*status, sent.pod)
	if i < 0 || !isNew(status.Records[i]) {
		return nil
	}
	refusal := resize.DeclinedMeanwhile(sent.pod, sent.plan, answered(*status, w, w.now))
	if refusal != nil {
		status.Records = slices.Delete(status.Records, i, i+1)
	}
	return refusal
}

// answered is what an answer of the API server is remembered by.
func answered(status v1alpha1.AttuneRecommendationStatus, w world, now time.Time) resize.World {
	return resize.World{Now: now, Rules: w.settings.Resize, Status: status, LimitRanges: w.limits, Quotas: w.quotas}
}

func recordAt(status v1alpha1.AttuneRecommendationStatus, pod *corev1.Pod) int {
	return slices.IndexFunc(status.Records, func(r v1alpha1.ResizeRecord) bool { return r.PodUID == pod.UID })
}

// resize patches the pod's resize subresource; the patch names the pod's uid, and its version where anything is
// lowered: what a person raised since the pod was read is never taken back. Without rights nothing is sent.
func (c *Controller) resize(ctx context.Context, w write) (*corev1.Pod, resize.Outcome) {
	lost := c.Rights.lostUrgent
	if w.begins {
		lost = c.Rights.lost
	}
	if why := lost(ctx, w.pod.Namespace); why != "" {
		return nil, resize.Outcome{Kind: resize.OutcomeRBAC, Reason: resize.ReasonNoRights, Message: why}
	}
	plan := w.plan
	if plan.Lowers() {
		plan.Version = w.pod.ResourceVersion
	}
	returned, outcome := c.patch(ctx, w.pod, plan)
	for range mostCatchUps {
		if outcome.Kind != resize.OutcomeConflict || plan.Version == "" {
			break
		}
		now, err := c.live(ctx, w.pod)
		if err != nil || now == nil || now.Generation != w.pod.Generation {
			break // its spec is another one: the next pass decides about that
		}
		if now.ResourceVersion == plan.Version {
			break // the same would meet the same
		}
		plan.Version = now.ResourceVersion
		returned, outcome = c.patch(ctx, w.pod, plan)
	}
	return returned, outcome
}

// mostCatchUps is how often a patch is sent again at once because the pod's status moved on, but not its spec.
const mostCatchUps = 3

func (c *Controller) patch(ctx context.Context, of *corev1.Pod, plan resize.Plan) (*corev1.Pod, resize.Outcome) {
	pod := of.DeepCopy()
	err := c.Client.SubResource("resize").Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, plan.Patch()))
	return pod, resize.Classify(err)
}

// heed remembers what an answer says beyond its record: of the rights, of the node, and when a pod was asked to be put
// back.
func (c *Controller) heed(ctx context.Context, d *decision, w world, sent write, returned *corev1.Pod, outcome resize.Outcome) {
	switch {
	case outcome.Kind == resize.OutcomeAccepted:
		c.newest.note(returned, w.now)
		c.Rights.taken(sent.plan.Namespace)
	case outcome.Kind == resize.OutcomeRBAC && outcome.Reason != resize.ReasonNoRights:
		c.Rights.refused(ctx, sent.plan.Namespace, outcome.Message)
	}
	i := recordAt(d.status, sent.pod)
	switch {
	case i < 0:
	case resize.PuttingBack(d.status.Records[i]):
		c.lastAsked.note(sent.plan.PodUID, w.now)
	case isNew(d.status.Records[i]) && outcome.OfNode() && isOn(sent.pod, d.status.Records[i].Node):
		c.nodes.learn([]lesson{{w.rec.Namespace, d.status.Records[i], resize.ReasonInfeasible, outcome.Message}}, w.now)
	}
}

// isNew: the record's first patch is on its way, so that nothing was changed yet.
func isNew(record v1alpha1.ResizeRecord) bool {
	return record.Phase == v1alpha1.RecordWritten && !resize.InSecondPatch(record)
}

// answer notes in a record, and in the tries, what the API server said to its resize. Of an unknown outcome only the
// try is counted: the next pass reads the pod. A second patch that met a passing no is sent again. It returns what is to
// be counted.
func answer(status *v1alpha1.AttuneRecommendationStatus, of world, w write, returned *corev1.Pod, outcome resize.Outcome, now time.Time) []count {
	i := recordAt(*status, w.pod)
	if i < 0 {
		return nil
	}
	record := &status.Records[i]
	*record = resize.Sent(*record)
	switch {
	case outcome.Kind == resize.OutcomeAccepted:
		status.Tries = resize.Accepted(status.Tries, *record)
		*record = resize.RecordReturned(*record, returned)
	case resize.PuttingBack(*record):
		status.Tries, _ = resize.Obstacle(status.Tries, record.PodUID, outcome.Reason, outcome.Message)
	case resize.InSecondPatch(*record) && outcome.Passing():
	case resize.InSecondPatch(*record) && outcome.Refused():
		*record = resize.SecondRefused(*record, w.pod)
	case isNew(*record) && outcome.Kind == resize.OutcomeInfeasible && resize.Recreates(*record, of.settings.Resize):
		*record = resize.GivenUp(*record)
	case isNew(*record) && outcome.Refused():
		status.Tries = resize.Declined(status.Tries, outcome, w.pod, w.plan, answered(*status, of, now))
		return refuse(status, i, of.rec.Spec.Workload.Name, outcome, now)
	}
	return nil
}

// refuse closes a record whose resize the API server did not take. Nothing was changed, so nothing cools down: when
// it is asked again is the matter of what it said (resize.Declined). The history tells of answers that a person may
// have to do something about, and the metrics count them.
func refuse(status *v1alpha1.AttuneRecommendationStatus, i int, workload string, outcome resize.Outcome, now time.Time) (counts []count) {
	switch outcome.Kind {
	case resize.OutcomeTerminal, resize.OutcomeInfeasible, resize.OutcomePolicyRefusal:
		rows := resize.HistoryRows(workload, status.Records[i], resize.ResultFailed, outcome.Reason, now)
		counts = countsOf(countFailed, status.Records[i], "")
		status.History = resize.AddHistory(resize.WithoutRows(status.History, rows), rows)
	}
	status.Records = append(status.Records[:i:i], status.Records[i+1:]...)
	return counts
}
