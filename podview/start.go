package podview

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// startTakes is how long after the creation of a pod a foreign resize is part of its start. Boosters such as
// kube-startup-cpu-boost create pods with more CPU and resize them once they have started. readyTakes is the same after
// a slow pod became ready.
const (
	startTakes = 10 * time.Minute
	readyTakes = time.Minute
)

// ResizedAtStart reports whether the last foreign resize of a pod is part of its start. A user's resize (kubectl) never
// counts: the user had a reason that concerns this pod.
func ResizedAtStart(pod *corev1.Pod) bool {
	manager, at := ResizedBy(pod)
	if at.IsZero() || strings.HasPrefix(manager, "kubectl") {
		return false
	}
	if !at.After(pod.CreationTimestamp.Add(startTakes)) {
		return true
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.RestartCount > 0 {
			return false
		}
	}
	ready := First(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	return ready.Status == corev1.ConditionTrue && !at.Before(ready.LastTransitionTime.Time) && !at.After(ready.LastTransitionTime.Add(readyTakes))
}
