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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// publish writes a pod's status where it changed.
func (n *Node) publish(ctx context.Context, pod *corev1.Pod, now time.Time) error {
	s := n.pods[pod.UID]
	if s == nil || finished(pod) {
		return nil
	}
	status := n.status(pod, s, now)
	if n.Faults.StatusLag > 0 {
		status = s.late(pod, status, now, n.Faults.StatusLag)
	} else {
		s.lagging, s.publishAt = nil, time.Time{}
	}
	if equality.Semantic.DeepEqual(&pod.Status, status) {
		return nil
	}
	before := pod.DeepCopy()
	pod.Status = *status
	err := n.client.Status().Patch(ctx, pod, client.MergeFrom(before))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("writing the status of pod %s: %w", pod.Name, err)
	}
	return nil
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
	if s.rejected != nil {
		status.Phase, status.Reason, status.Message = corev1.PodFailed, s.rejected.reason, s.rejected.message
		return status
	}
	status.Phase = corev1.PodPending
	if s.containers != nil {
		status.Phase = corev1.PodRunning
		if status.StartTime == nil {
			status.StartTime = ptr.To(stored(now))
		}
	}
	ready := s.containers != nil && n.options.Ready(pod)
	status.ContainerStatuses = n.containerStatuses(pod.Spec.Containers, s, ready)
	status.InitContainerStatuses = n.containerStatuses(sidecars(pod), s, ready)
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		setCondition(status, kind, ready, now)
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

func (n *Node) containerStatuses(containers []corev1.Container, s *podState, ready bool) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for _, c := range containers {
		status := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
		if run := s.containers[c.Name]; run == nil {
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		} else {
			n.running(&status, run, s, ready)
		}
		list = append(list, status)
	}
	return list
}

func (n *Node) running(status *corev1.ContainerStatus, run *containerState, s *podState, ready bool) {
	started := true
	status.ContainerID, status.ImageID, status.Started, status.Ready = run.id, status.Image, &started, ready
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
