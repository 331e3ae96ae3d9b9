package workload

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

// send sends each resize that was decided and stored, and records the API server's answer. Only carryOutDecision calls
// it. It returns the status with the answers, which the caller stores, and how many of the sent resizes count against
// the rate limit. A pod that changed meanwhile (conflict) causes no event: the next pass decides on the newer pod.
func (c *Controller) send(ctx context.Context, rec *v1alpha1.AttuneRecommendation, w tuning.View, d tuning.Decision) (status v1alpha1.AttuneRecommendationStatus, begun int) {
	status = *rec.Status.DeepCopy()
	for _, sent := range d.Writes {
		if refusal := tuning.DeclinedMeanwhile(&status, w, sent); refusal != nil {
			log.FromContext(ctx).Info("Skipped a resize after a rejection of the same resize", "pod", sent.Plan.PodName, "reason", refusal.Message)
			continue
		}
		returned, outcome := c.resize(ctx, sent)
		if sent.Begins && outcome.Reason != resize.ReasonNoRights {
			begun++
		}
		log.FromContext(ctx).Info("Sent a resize", "pod", sent.Plan.PodName, "outcome", outcome.Kind, "reason", outcome.Reason)
		c.recordOutcome(ctx, &d, w, sent, returned, outcome)
		for _, n := range tuning.Answer(&status, w, sent, returned, outcome, c.Clock.Now()) {
			c.memory.meters.counted.add(n, rec)
		}
		if outcome.Kind != resize.OutcomeAccepted && outcome.Kind != resize.OutcomeConflict {
			c.Events.Send(sent.Pod, rec, event.Warning(v1alpha1.EventResizeFailed, "Resize of pod %s failed: %s: %s", sent.Plan.PodName, outcome.Reason, outcome.Message))
		}
	}
	c.sendEvictions(ctx, rec, d, &status)
	return status, begun
}

// resize patches the pod's subresource resize (KEP-1287). The patch contains the pod's UID, and its version if it
// lowers anything: it must never lower a value that a user has raised since the pod was read. After a conflict the
// patch is sent again at once if only the pod's status has changed. Without permissions nothing is sent.
func (c *Controller) resize(ctx context.Context, w tuning.Write) (*corev1.Pod, resize.Outcome) {
	lost := c.Rights.lostUrgent
	if w.Begins {
		lost = c.Rights.lost
	}
	if why := lost(ctx, w.Pod.Namespace); why != "" {
		return nil, resize.Outcome{Kind: resize.OutcomeRBAC, Reason: resize.ReasonNoRights, Message: why}
	}
	plan := w.Plan
	if plan.Lowers() {
		plan.Version = w.Pod.ResourceVersion
	}
	returned, outcome := c.patch(ctx, w.Pod, plan)
	for range mostCatchUps {
		if outcome.Kind != resize.OutcomeConflict || plan.Version == "" {
			break
		}
		now, err := livePod(ctx, c.Live, w.Pod)
		if err != nil || now == nil || now.Generation != w.Pod.Generation {
			break // its spec changed: the next pass decides about it
		}
		if now.ResourceVersion == plan.Version {
			break // the same patch would have the same conflict
		}
		plan.Version = now.ResourceVersion
		returned, outcome = c.patch(ctx, w.Pod, plan)
	}
	return returned, outcome
}

// mostCatchUps is how often a patch is sent again at once because the pod's status changed, but not its spec.
const mostCatchUps = 3

// patch sends one strategic merge patch and classifies the error. It patches a copy: the client decodes the API
// server's answer into the object, and the cached pod must not change.
func (c *Controller) patch(ctx context.Context, of *corev1.Pod, plan resize.Plan) (*corev1.Pod, resize.Outcome) {
	pod := of.DeepCopy()
	err := c.Client.SubResource("resize").Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, plan.Patch()), client.FieldOwner(podview.FieldManager))
	return pod, resize.Classify(err)
}

// recordOutcome stores what an answer shows apart from its record: about the permissions, about the node, and when a
// pod was last sent a revert. A lesson about a node is learned only if the pod really runs on it.
func (c *Controller) recordOutcome(ctx context.Context, d *tuning.Decision, w tuning.View, sent tuning.Write, returned *corev1.Pod, outcome resize.Outcome) {
	switch {
	case outcome.Kind == resize.OutcomeAccepted:
		c.memory.seenGenerations.record(returned, w.Now)
		c.Rights.recordAccepted(sent.Plan.Namespace)
	case outcome.Kind == resize.OutcomeRBAC && outcome.Reason != resize.ReasonNoRights:
		c.Rights.recordDenied(ctx, sent.Plan.Namespace, outcome.Message)
	}
	switch record := tuning.RecordOf(d.Status, sent.Pod); {
	case record == nil:
	case resize.PuttingBack(*record):
		c.memory.lastAsked.record(sent.Plan.PodUID, w.Now, askedLasts, w.Now)
	case tuning.IsNew(*record) && outcome.OfNode() && record.Node == sent.Pod.Spec.NodeName:
		c.memory.nodes.learn([]tuning.Lesson{{Namespace: w.Rec.Namespace, Record: *record, Reason: resize.ReasonInfeasible, Message: outcome.Message}}, w.Now)
	}
}

// sendEvictions calls the Eviction API for the pods of a decision, whose records are stored as "evicting", and
// records denials in status. A granted eviction is not recorded: the pod shows it. The API server checks
// PodDisruptionBudgets.
func (c *Controller) sendEvictions(ctx context.Context, rec *v1alpha1.AttuneRecommendation, d tuning.Decision, status *v1alpha1.AttuneRecommendationStatus) {
	for _, pod := range d.Evictions {
		err := c.Client.SubResource("eviction").Create(ctx, pod, evictionOf(pod))
		outcome := lifecycle.ClassifyEviction(err)
		log.FromContext(ctx).Info("Requested an eviction", "pod", pod.Name, "outcome", outcome, "error", err)
		if outcome == lifecycle.EvictionGranted {
			continue
		}
		c.Events.Send(pod, rec, event.Warning(v1alpha1.EventEvictionDenied, "Eviction of pod %s denied; attune tries again: %v", pod.Name, err))
		if outcome == lifecycle.EvictionDenied {
			c.memory.meters.counted.eviction(rec, outcome)
			tuning.NotEvicted(rec, status, pod.UID, c.Clock.Now())
		}
	}
}

// evictionOf evicts only the pod that was read, in the version that was read: a pod that changed meanwhile is not
// evicted but decided about again.
func evictionOf(pod *corev1.Pod) *policyv1.Eviction {
	return &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
			UID: &pod.UID, ResourceVersion: &pod.ResourceVersion,
		}},
	}
}

// askedLasts is how long the time of a request is kept: longer than the longest backoff between two requests.
const askedLasts = 10 * time.Minute

// askedAt returns when reverts were last sent to the pods that are being restored.
func (c *Controller) askedAt(records []v1alpha1.ResizeRecord, now time.Time) map[types.UID]time.Time {
	asked := map[types.UID]time.Time{}
	for _, record := range records {
		if at, ok := c.memory.lastAsked.read(record.PodUID, askedLasts, now); ok && resize.PuttingBack(record) {
			asked[record.PodUID] = at
		}
	}
	return asked
}
