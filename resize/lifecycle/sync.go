package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// HPASyncPeriod is the default of --horizontal-pod-autoscaler-sync-period of kube-controller-manager.
const HPASyncPeriod = 15 * time.Second

// syncMargin is the part of a sync period that is reserved for sending the withdrawal.
const syncMargin = 5

// requestsRest is how long the previous requests of a pod are not requested again after its node had no room for them and
// an HPA scales on them.
const requestsRest = 5 * time.Minute

// RequestsMore reports whether the spec of a pod requests more of a resource than the pod has, for a request on which an
// HPA scales (scaled). The HPA divides by the request of the spec (kubernetes/kubernetes#142155): it sees a lower
// utilization than there is, and removes pods. A size that is allocated and waits for the restart of its container
// (resizePolicy) does not count, since a withdrawal would restart the container once more.
func RequestsMore(pod *corev1.Pod, scaled resize.ScaledRequests) bool {
	if len(scaled) == 0 {
		return false
	}
	statuses := podview.Statuses(pod)
	for _, c := range podview.Resizable(pod) {
		status := statuses[c.Name]
		if status == nil {
			continue
		}
		for _, r := range recommender.Resources {
			if scaled.Has(c.Name, r) && behind(c, status, r) {
				return true
			}
		}
	}
	return false
}

// behind reports whether a container has less of a resource than its spec requests.
func behind(c *corev1.Container, status *corev1.ContainerStatus, r recommender.Resource) bool {
	spec := podview.AmountIn(r, c.Resources.Requests)
	if status.AllocatedResources != nil && podview.AmountIn(r, status.AllocatedResources) < spec {
		return true
	}
	if status.Resources == nil || status.State.Running == nil || podview.RestartPolicyFor(c, podview.NameOf(r)) == corev1.RestartContainer {
		return false
	}
	has := podview.AmountIn(r, status.Resources.Requests)
	return has < spec && !podview.NearRequest(r, has, spec)
}

// nextBelowHPA gives a node less time for a raise of a request on which an HPA scales: a raise that the node defers is
// withdrawn at once, and any other that it does not carry out before the HPA could be evaluated twice. The previous
// requests of a pod that is being restored do not wait in the spec either (nextStepBack).
func nextBelowHPA(state State, record v1alpha1.ResizeRecord, action Action, c Circumstances, now time.Time) Action {
	switch {
	case c.HPASync == 0:
		return action
	case resize.PuttingBack(record):
		return nextStepBack(state, record, action, c)
	case action.Kind == Wait:
		action = nextInSync(state, record, action, c, now)
	}
	action.BelowHPA = action.restores() && action.Reason != ReasonUndo
	return action
}

// nextInSync is nextBelowHPA for a resize that goes forward and waits. A raise that the node deferred before, too, ends as
// without an HPA: the policy may let the pod move (worthEvicting).
func nextInSync(state State, record v1alpha1.ResizeRecord, wait Action, c Circumstances, now time.Time) Action {
	period, reason := c.HPASync, resize.ReasonHPASync
	state.Message = string(state.Kind) + " " + state.Message + "; a HorizontalPodAutoscaler scales on the request and would remove pods"
	end := record.WrittenAt.Add(period - period/syncMargin)
	switch state.Kind {
	case Deferred:
		if end = now; resize.NotInSyncBefore(c.Tries, record) {
			reason = resize.ReasonDeferred
		}
	case Unobserved, Actuating, Failed:
	default:
		return wait
	}
	action := until(end, now, state, withdraw(reason, state))
	if action.Kind == Wait {
		wait.RequeueAfter = min(wait.RequeueAfter, action.RequeueAfter)
		return wait
	}
	return action
}

// nextStepBack lowers the requests of a pod that is being restored to what its node allocated, if the node has no room for
// the previous ones. Until the first time, it keeps to the pauses between patches; afterwards the pause is that of the
// previous requests (PutBackEvery).
func nextStepBack(state State, record v1alpha1.ResizeRecord, action Action, c Circumstances) Action {
	row := restoreRow(c.Tries, record.PodUID)
	again := row != nil && row.Reason == resize.ReasonRequestsWait
	if action.Kind != Wait || state.Kind != Deferred && state.Kind != Refused || c.Pause > 0 && !again {
		return action
	}
	return Action{Kind: StepBack, Reason: resize.ReasonRequestsWait, RequeueAfter: pollEvery,
		Message: "the node has no room for the previous requests, and a HorizontalPodAutoscaler scales on them: " + string(state.Kind) + " " + state.Message +
			". The limits are restored. The requests follow when the node has room"}
}

// StepBackPlan plans to request what the node has allocated to a pod that is being restored. The limits that were
// requested stay, because a node needs no room for them, unless the class of the pod would change or the container would
// restart once more.
func StepBackPlan(pod *corev1.Pod, record v1alpha1.ResizeRecord, caps resize.Capabilities) resize.Plan {
	plan := resize.PlanOf(pod)
	live := podview.ByName(podview.Read(pod))
	for _, limitsToo := range []bool{false, true} {
		plan.Moves = nil
		for _, change := range resize.Changes(record) {
			c := podview.ContainerOf(pod, change.Container)
			if c == nil {
				continue
			}
			spec := podview.ReadSpec(c.Resources)
			to := withoutForbiddenDecrease(c, spec, stepBack(c, spec, live[c.Name].Size, limitsToo), caps)
			plan.Moves = resize.AppendMove(plan.Moves, resize.Move{Container: c.Name, Sidecar: podview.IsSidecar(pod, c), From: spec, To: to})
		}
		if podview.QOSClass(plan.Apply(pod)) == podview.ClassOf(pod) {
			plan.Restarts = resize.RestartsAny(pod, plan)
			return plan
		}
	}
	plan.Moves = nil
	return plan
}

// stepBack returns the size of a container in StepBackPlan.
func stepBack(c *corev1.Container, spec, has recommender.Size, limitsToo bool) recommender.Size {
	to := spec
	for _, r := range recommender.Resources {
		if has[r].Request == 0 || has[r].Request >= spec[r].Request {
			continue
		}
		to[r].Request = has[r].Request
		if restarts := podview.RestartPolicyFor(c, podview.NameOf(r)) == corev1.RestartContainer; has[r].Limit > 0 && (limitsToo || restarts) {
			to[r].Limit = has[r].Limit
		}
	}
	return to
}
