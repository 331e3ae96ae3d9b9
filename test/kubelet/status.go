package kubelet

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// publish writes a pod's status where it changed.
func (n *Node) publish(ctx context.Context, pod *corev1.Pod, now time.Time) error {
	s := n.pods[pod.UID]
	if s == nil || finished(pod) || s.shown == pod.ResourceVersion && s.shown != "" {
		return nil
	}
	status := n.status(pod, s, now)
	if n.Faults.StatusLag > 0 {
		status = s.late(pod, status, now, n.Faults.StatusLag)
	} else {
		s.lagging, s.publishAt = nil, time.Time{}
	}
	if equality.Semantic.DeepEqual(&pod.Status, status) {
		n.showed(s, pod)
		return nil
	}
	changed := pod.DeepCopy()
	changed.Status = *status
	err := n.client.Status().Update(ctx, changed)
	switch {
	case err == nil:
		n.showed(s, changed)
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		return fmt.Errorf("writing the status of pod %s: %w", pod.Name, err)
	}
	return nil
}

// showed: the object shows everything there is to say, unless some of it is held back.
func (n *Node) showed(s *podState, pod *corev1.Pod) {
	if n.Faults.StatusLag == 0 {
		s.shown = pod.ResourceVersion
	}
}

// late holds a status back; what is held back already is written first.
func (s *podState) late(pod *corev1.Pod, status *corev1.PodStatus, now time.Time, lag time.Duration) *corev1.PodStatus {
	switch {
	case s.lagging == nil && !equality.Semantic.DeepEqual(&pod.Status, status):
		s.lagging, s.publishAt = status, now.Add(lag)
	case s.lagging != nil && !now.Before(s.publishAt):
		out := s.lagging
		s.lagging, s.publishAt = nil, time.Time{}
		return out
	}
	return &pod.Status
}

// status is what the pod's status should be.
func (n *Node) status(pod *corev1.Pod, s *podState, now time.Time) *corev1.PodStatus {
	status := pod.Status.DeepCopy()
	status.ObservedGeneration = n.generation(s.observed)
	if s.rejected != nil && s.startAt.IsZero() {
		status.Phase, status.Reason, status.Message = corev1.PodFailed, s.rejected.reason, s.rejected.message
		return status
	}
	status.Phase = corev1.PodPending
	if s.rejected != nil {
		return status
	}
	if s.containers != nil {
		status.Phase = s.phase(pod)
		if status.StartTime == nil {
			status.StartTime = ptr.To(stored(now))
		}
	}
	ready := s.containers != nil && s.ready
	status.ContainerStatuses = n.containerStatuses(pod, pod.Spec.Containers, s, now)
	status.InitContainerStatuses = n.containerStatuses(pod, sidecars(pod), s, now)
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		setCondition(status, kind, ready || kind == corev1.PodInitialized && s.containers != nil, now)
	}
	if s.podLimit > 0 {
		status.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(s.podLimit, resource.BinarySI)}}
	}
	if status.Phase != corev1.PodRunning && status.Phase != corev1.PodPending {
		n.verdicts(status, corev1.PodResizePending, nil)
		n.verdicts(status, corev1.PodResizeInProgress, nil)
		return status
	}
	n.verdicts(status, corev1.PodResizePending, s.pending)
	progress := s.progress
	if n.Faults.PrematureClear && progress != nil && progress.reason == "" {
		progress = nil
	}
	n.verdicts(status, corev1.PodResizeInProgress, progress)
	return status
}

// generation as the kubelet reports it: 1.33 reports none.
func (n *Node) generation(g int64) int64 {
	if n.options.Minor < 34 {
		return 0
	}
	return g
}

func (n *Node) containerStatuses(pod *corev1.Pod, containers []corev1.Container, s *podState, now time.Time) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for _, c := range containers {
		status := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
		switch run := s.containers[c.Name]; {
		case run == nil && s.tooSmall && n.Faults.TooSmall != "":
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: n.Faults.TooSmall, Message: "container init was OOM-killed (memory limit too low?)"}
		case run == nil:
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		case run.runs():
			n.running(pod, &status, run, s, now)
		default:
			stopped(pod, &status, run, s, now)
		}
		list = append(list, status)
	}
	return list
}

// stopped is a container that has ended, or waits to start again: it shows what is allocated.
func stopped(pod *corev1.Pod, status *corev1.ContainerStatus, run *containerState, s *podState, now time.Time) {
	status.ContainerID, status.ImageID, status.Started = run.id, status.Image, ptr.To(false)
	status.RestartCount, status.LastTerminationState.Terminated = run.restarts, run.last
	allocated := s.allocated[status.Name]
	status.AllocatedResources, status.Resources = allocated.Requests.DeepCopy(), allocated.DeepCopy()
	if run.startAgain.IsZero() || now.Before(run.shownUntil) {
		status.State.Terminated = run.ended
		return
	}
	status.State.Waiting, status.LastTerminationState.Terminated = run.waiting(pod, status.Name), run.ended
}

func (n *Node) running(pod *corev1.Pod, status *corev1.ContainerStatus, run *containerState, s *podState, now time.Time) {
	_, ready := n.processes.Healthy(s.run(pod, status.Name), now)
	status.ContainerID, status.ImageID, status.Started, status.Ready = run.id, status.Image, ptr.To(true), ready
	status.RestartCount = run.restarts
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: stored(run.startedAt)}
	status.LastTerminationState.Terminated = run.last
	status.AllocatedResources = s.allocated[status.Name].Requests.DeepCopy()
	actual := s.actuated[status.Name]
	actual = *actual.DeepCopy()
	if limit, ok := actual.Limits[corev1.ResourceCPU]; ok && n.Faults.Rounding != 0 {
		limit.Add(*resource.NewMilliQuantity(n.Faults.Rounding, resource.DecimalSI))
		actual.Limits[corev1.ResourceCPU] = limit
	}
	status.Resources = &actual
}

// verdicts sets or clears a condition of a resize.
func (n *Node) verdicts(status *corev1.PodStatus, kind corev1.PodConditionType, v *verdict) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if v == nil {
		return
	}
	status.Conditions = append(status.Conditions, corev1.PodCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: v.reason, Message: v.message,
		ObservedGeneration: n.generation(v.generation), LastTransitionTime: stored(v.since),
	})
}

func setCondition(status *corev1.PodStatus, kind corev1.PodConditionType, holds bool, now time.Time) {
	want := corev1.ConditionFalse
	if holds {
		want = corev1.ConditionTrue
	}
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if c.Type != kind {
			continue
		}
		if c.Status != want {
			c.Status, c.LastTransitionTime = want, stored(now)
		}
		return
	}
	status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: want, LastTransitionTime: stored(now)})
}

// stored is a time as the API server keeps it: in whole seconds. A finer one would look like news each time.
func stored(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// sidecars are the native ones.
func sidecars(pod *corev1.Pod) []corev1.Container {
	var list []corev1.Container
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			list = append(list, c)
		}
	}
	return list
}
